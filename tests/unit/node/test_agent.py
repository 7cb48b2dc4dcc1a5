"""The node side as it really runs: shipped through standard input, watching real processes of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.node.resources import LOW
from collectors.node.sources import SOURCES
from collectors.samples.host import HostSample, Interface
from collectors.samples.ranks import Helper, RankProcess, RankPulse
from collectors.samples.stream import Fault, Hello, Settings, SourceState, Tick
from tests.support.node_agent import NodeAgent

MARK = f"node_agent_test_{os.getpid()}"
FAST = Settings(0.1, 0.0, ["HANGTOP_TEST", MARK], [], [], [])
MINE = ["ranks", "host", "network"]

RANK = """
import os, time
if os.fork() == 0:
    while True:
        time.sleep(1)
while True:
    sum(range(1000))
    time.sleep(0.02)
"""


def found_interpreters() -> list[str]:
    """Every Python from 3.8 on that this machine has, one per minor version, by their names: no test waits for them."""
    found = {sys.version_info.minor: sys.executable}
    for place in sorted(Path.home().glob(".pyenv/versions/3.*.*/bin/python3")):
        found.setdefault(int(place.parts[-3].split(".")[1]), str(place))
    for minor in range(8, 20):
        # what pyenv has under this name is one of those above, or says that it is none
        if (path := shutil.which(f"python3.{minor}")) and "/shims/" not in path:
            found.setdefault(minor, path)
    return [path for minor, path in found.items() if minor >= 8]


INTERPRETERS = found_interpreters()


@pytest.fixture(scope="module")
def ranks() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two ranks in their own session, each behind a shell and with one forked helper."""
    started = []
    for rank in range(2):
        env = os.environ | {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29789", "NCCL_DEBUG": "INFO", "MY_PASSWORD": "hunter2", "TORCH_TOKEN": "hunter2",
            "HANGTOP_TEST": MARK,
        }  # fmt: skip
        command = ["sh", "-c", '"$0" -c "$1" --api-key hunter2; exit $?', sys.executable, RANK]
        started.append(subprocess.Popen(command, env=env, start_new_session=True, stdout=subprocess.DEVNULL))
    yield started
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def watch(python: str = sys.executable, **more: object) -> NodeAgent:
    return NodeAgent({"settings": FAST, "sources": MINE, "version": "1.2", **more}, python=python)


def test_it_says_which_variables_make_it_see_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANGTOP_SYS", "/nowhere")
    with watch() as agent:
        agent.wait_for(lambda it: it.of(Hello))
    assert [hello.narrowed for hello in agent.of(Hello)] == [["HANGTOP_SYS"]]


@pytest.mark.parametrize("python", INTERPRETERS)
def test_under_every_interpreter(python: str, ranks: list[subprocess.Popen[bytes]]) -> None:
    with watch(python) as agent:
        agent.wait_for(lambda it: len(it.of(RankPulse)) > 5 and len(it.of(Helper)) > 1 and it.of(Interface))
        agent.end_input()
        assert agent.process.wait(60) == 0
        assert agent.errors() == ""
    assert agent.lines[0].startswith(b'["Hello"')
    processes = {process.rank: process for process in agent.of(RankProcess)}
    assert set(processes) == {0, 1}
    assert [processes[rank].parent for rank in (0, 1)] == [process.pid for process in ranks]
    assert all(processes[rank].command.endswith("--api-key <redacted>") for rank in (0, 1))
    assert {helper.rank_pid for helper in agent.of(Helper)} == {process.pid for process in processes.values()}
    assert {state.state for state in agent.of(SourceState)} == {"ok"}
    assert b"hunter2" not in b"".join(agent.lines)
    first, last = agent.of(RankPulse)[0], agent.of(RankPulse)[-2]
    assert last.voluntary_switches > first.voluntary_switches
    assert agent.of(HostSample)
    assert "lo" in {interface.name for interface in agent.of(Interface)}
    assert [tick.seq for tick in agent.of(Tick)] == list(range(1, len(agent.of(Tick)) + 1))
    assert not agent.of(Fault)


def test_settings_change_while_it_runs(ranks: list[subprocess.Popen[bytes]]) -> None:
    with watch(settings=FAST._replace(job=["HANGTOP_TEST", "nobody"])) as agent:
        agent.wait_for(lambda it: len(it.of(Tick)) > 3)
        assert not agent.of(RankProcess)
        agent.control(FAST)
        agent.wait_for(lambda it: it.of(RankProcess))
        agent.control(FAST._replace(interval=60.0, phase=0.5))
        agent.beat()
        agent.control(FAST)
        seen = len(agent.of(Tick))
        agent.wait_for(lambda it: len(it.of(Tick)) > seen + 2, what="no tick after a long interval was taken back")


def niceness(pid: int) -> dict[int, int]:
    """Niceness of each thread of a process."""
    stats = {int(task.name): (task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()}
    return {thread: int(stat.rpartition(")")[2].split()[16]) for thread, stat in stats.items()}


def test_once_it_is_up_all_but_its_heartbeat_has_a_low_priority() -> None:
    with watch() as agent:
        agent.wait_for(lambda it: {state.source for state in it.of(SourceState)} == set(MINE))
        seen = len(agent.of(Tick))
        agent.wait_for(lambda it: len(it.of(Tick)) > seen + 2)
        found = niceness(agent.process.pid)
    assert found.pop(agent.process.pid) == LOW
    others = sorted(found.values())
    assert others.pop(0) == os.nice(0)
    assert set(others) == {LOW}
    assert len(others) >= len(MINE), "sources may have threads of their own for what may hang"


def test_a_control_line_that_makes_no_sense_is_a_fault_and_nothing_else() -> None:
    with watch(sources=["host"]) as agent:
        agent.send(b"\xff\x00\n[[[[\n" + b'["Settings",[0]]\n')
        agent.wait_for(lambda it: sum(fault.times for fault in it.of(Fault) if fault.source == "control") >= 3)
        agent.wait_for(lambda it: it.of(HostSample))
        assert agent.process.poll() is None


def test_every_source_of_the_registry_loads_and_says_how_it_is() -> None:
    with NodeAgent({"settings": FAST}) as agent:
        agent.wait_for(lambda it: {state.source for state in it.of(SourceState)} == set(SOURCES))
    assert "failed" not in {state.state for state in agent.of(SourceState)}, agent.of(SourceState)
