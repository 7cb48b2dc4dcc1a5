"""Dumps of real processes with the real py-spy: all that can stand in its way."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectors.fleet.via.piped import Piped
from collectors.fleet.via.way import Way
from collectors.node.stacks.reader import NO_NATIVE
from collectors.probes.flame import record
from collectors.probes.stacks import DumpRequest, dump, loan
from collectors.probes.stacks import dump as dump_module
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.stacks.activity import activity
from tests.support.here import here
from tests.support.node_agent import children

pytestmark = pytest.mark.nodes

PROGRAM = """\
import sys, time
def read_shard(path):
    with open(path, "rb") as shard:
        print("ready", flush=True)
        return shard.read(1)
def spin():
    print("ready", flush=True)
    while True:
        pass
def rest():
    print("ready", flush=True)
    time.sleep(300)
eval(sys.argv[1])
"""
SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def through(*words: str) -> Piped:
    """This machine, its shell begun by further words: another user, fewer rights, another environment."""
    return here(way=Way((*words, "sh")), python=SYSTEM_PYTHON)


@pytest.fixture
def start() -> Iterator[Callable[..., int]]:
    """Start a Python program that does one thing; its pid. Ended with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(call: str, *before: str, python: str = sys.executable) -> int:
        words = [*before, python, "-c", PROGRAM, call]
        running.append(subprocess.Popen(words, stdout=subprocess.PIPE))
        assert running[-1].stdout is not None
        assert running[-1].stdout.readline() == b"ready\n"
        time.sleep(0.1)
        return running[-1].pid

    yield begin
    for program in running:
        for child in children(program.pid):  # the first of a namespace does not end with its parent
            os.kill(child, signal.SIGKILL)
        os.kill(program.pid, signal.SIGCONT)
        program.kill()
        program.wait()
        assert program.stdout is not None
        program.stdout.close()


def read(path: str) -> str:
    return Path(path).read_text()


async def one(transport: Piped, pid: int, manner: DumpRequest | None = None) -> StackDump:
    [found] = await dump(transport, [pid], manner or DumpRequest())
    return found


async def test_what_several_processes_do_in_one_look(start: Callable[..., int], tmp_path: Path) -> None:
    pipe = tmp_path / "shard-7"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    pids = [start("rest()"), start("spin()"), start(f"read_shard({str(pipe)!r})")]
    dumps = await dump(here(), pids)
    os.close(writer)
    doing = {each.pid: activity([each]) for each in dumps}
    assert [doing[pid].kind for pid in pids] == ["sleep", "code", "data"]
    assert [doing[pid].waits for pid in pids] == ["time", "nothing", "storage"]
    assert doing[pids[2]].waiting_on == str(pipe)
    assert {each.method for each in dumps} == {"nonblocking"}


async def test_a_stopped_process_is_read_and_left_stopped(start: Callable[..., int]) -> None:
    pid = start("rest()")
    os.kill(pid, signal.SIGSTOP)
    for manner in (DumpRequest(), DumpRequest(native=True)):
        found = await one(here(), pid, manner)
        assert (found.error, found.method, found.state) == ("", "nonblocking", "T")
    assert read(f"/proc/{pid}/stat").split()[2] == "T"


async def test_native_frames(start: Callable[..., int]) -> None:
    found = await one(here(), start("rest()"), DumpRequest(native=True))
    assert found.method == "native"
    assert any(frame.native for frame in found.threads[0].frames)


@pytest.fixture
def no_python() -> Iterator[tuple[int, int]]:
    """A zombie, and a process that is no Python."""
    dead, shell = subprocess.Popen(["true"]), subprocess.Popen(["sleep", "60"])
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    yield dead.pid, shell.pid
    shell.kill()
    dead.wait()
    shell.wait()


async def test_processes_that_give_no_frames(no_python: tuple[int, int]) -> None:
    dead, shell = no_python
    dumps = await dump(here(), [dead, shell, 4_000_000])
    words = {each.pid: each.error.partition(":")[0] for each in dumps}
    assert words == {dead: "gone", shell: "not-python", 4_000_000: "gone"}


@pytest.fixture
def loans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Machines that asked for a py-spy; nodes find none of their own."""
    for folder in ("/usr/local/bin", "/usr/bin", "/opt/conda/bin", "/opt/venv/bin"):
        if Path(folder, "py-spy").exists():
            pytest.skip("this machine has a py-spy for everybody")
    asked: list[str] = []

    def counted(machine: str) -> bytes:
        asked.append(machine)
        return loan(machine)

    monkeypatch.setattr(sys.modules[dump_module.__module__], "loan", counted)
    return asked


BARE = ("env", "-i", "PATH=/usr/bin:/bin", "HOME=/nonexistent")


async def test_a_node_without_py_spy_is_lent_one(start: Callable[..., int], loans: list[str]) -> None:
    pid = start("rest()", *BARE, python=SYSTEM_PYTHON)
    found = await one(through(*BARE), pid)
    assert (found.error, found.threads[0].frames[0].name) == ("", "rest")
    assert loans == [os.uname().machine]


@pytest.fixture
def sudo() -> Iterator[Path]:
    """A folder with a sudo that asks nobody."""
    if subprocess.run([*NOBODY, SYSTEM_PYTHON, "-c", ""], capture_output=True, check=False).returncode != 0:
        pytest.skip("no Python here that everybody may run")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    shutil.copy(shutil.which("setpriv") or "setpriv", folder / "become")
    (folder / "become").chmod(0o4755)
    (folder / "sudo").write_text(f'#!/bin/sh\nshift\nexec {folder}/become --reuid=0 --clear-groups "$@"\n')
    (folder / "sudo").chmod(0o755)
    yield folder
    shutil.rmtree(folder)


async def test_another_users_process_is_denied_with_the_way_out_and_sudo_is_tried_when_asked(
    start: Callable[..., int], loans: list[str], sudo: Path
) -> None:
    transport = through(*NOBODY, "env", "-i", f"PATH={sudo}:/usr/bin:/bin", "HOME=/nonexistent")
    pid = start("rest()")
    found = await one(transport, pid)
    assert found.error.startswith("denied: "), "never unasked"
    assert found.way_out.startswith("the process belongs to uid 0")
    assert (found.state, found.threads) == ("S", [])
    found = await one(transport, pid, DumpRequest(sudo=True))
    assert (found.error, found.threads[0].frames[0].name) == ("", "rest")


async def test_a_process_in_a_container_is_seen_from_the_host(start: Callable[..., int]) -> None:
    outer = start("rest()", "unshare", "--pid", "--fork")
    inner = int(read(f"/proc/{outer}/task/{outer}/children"))
    found = await one(here(), inner, DumpRequest(native=True))
    assert (found.error, found.method, found.way_out) == ("", "nonblocking", NO_NATIVE)
    assert activity([found]).where.startswith("rest (")
    assert [thread.os_thread_id for thread in found.threads] == [inner]


async def test_a_process_is_recorded_for_a_second_and_one_that_is_gone_says_so(start: Callable[..., int]) -> None:
    spins, gone = await record(here(), [start("spin()"), 4_000_000], seconds=1)
    assert "<module> (<string>:1);spin (<string>:" in spins.stacks
    assert (spins.error, gone.error) == ("", "gone: no such process")


def dumpers() -> set[str]:
    """Process ids of the dumpers that shells of this process have started."""
    shells = children(os.getpid())
    found = (str(pid) for shell in shells for pid in children(shell))
    return {pid for pid in found if b"def take(count)" in Path(f"/proc/{pid}/cmdline").read_bytes()}


async def test_one_dumper_answers_again_and_a_lost_one_is_replaced(start: Callable[..., int]) -> None:
    before = dumpers()
    transport, pid = here(), start("rest()")
    assert (await one(transport, pid)).error == ""
    [first] = dumpers() - before
    assert (await one(transport, pid)).error == ""
    assert dumpers() - before == {first}
    os.kill(int(first), signal.SIGKILL)
    found = await one(transport, pid)
    assert (found.error, found.threads[0].frames[0].name) == ("", "rest")
    assert dumpers() - before - {first}
    await transport.close()
    assert await none_left(before)


async def none_left(before: set[str]) -> bool:
    """Whether no dumper stays that was not there before."""
    for _ in range(100):
        if not dumpers() - before:
            return True
        await asyncio.sleep(0.05)
    return False
