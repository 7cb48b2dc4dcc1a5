"""Repairs: who is an orphan, signals that reach the process that was seen, a port that is free on every node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.local import Local
from collectors.probes import repair
from collectors.probes.remote.repair import (
    RepairCandidate,
    SignalTarget,
    candidates,
    continue_all,
    end_all,
)
from collectors.samples.stream import SourceState
from hangtop.session.probes import ProbeRefused
from hangtop.session.probes import repair as repairs
from hangtop.session.probes.repair import Repairable
from tests.support import orphans
from tests.support.fake_proc import FakeProc, rank_env
from tests.support.screens import NOW, Paper, PaperSession

OLD = {"TORCHELASTIC_RUN_ID": "old"}


# --- who can be helped -------------------------------------------------------------------------------------------


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


def found(proc: FakeProc, *keep: int) -> list[RepairCandidate]:
    return list(candidates(str(proc.root), set(keep)))


def named(proc: FakeProc, *keep: int) -> list[tuple[str, int]]:
    return [(one.what, one.pid) for one in found(proc, *keep)]


def test_a_rank_of_another_run_whose_launcher_is_gone(proc: FakeProc) -> None:
    proc.add(10, env=rank_env(0), parent=5)
    proc.add(5, argv=["/opt/venv/bin/torchrun"], comm="torchrun")
    proc.add(20, env=rank_env(0, 1) | OLD, start=1)
    (one,) = found(proc, 10)
    assert (one.what, one.pid, one.rank, one.run_id) == ("orphan", 20, 0, "old")
    assert one.why == "its launcher (torchrun) is gone"


def test_a_living_launcher_or_any_living_parent_makes_it_none(proc: FakeProc) -> None:
    proc.add(5, argv=["torchrun"], comm="torchrun")
    proc.add(6, argv=["bash", "run.sh"], executable="/usr/bin/bash", comm="bash")
    proc.add(20, env=rank_env(0, 1) | OLD, parent=5)
    proc.add(21, env=rank_env(0, 1, TORCHELASTIC_RUN_ID="older"), parent=6)
    assert named(proc) == []


def test_the_running_jobs_ranks_are_none_though_an_init_has_them(proc: FakeProc) -> None:
    proc.add(10, env=rank_env(0))
    proc.add(11, env=rank_env(1))
    proc.add(12, env=rank_env(1), parent=11)
    assert named(proc, 10, 11) == []
    assert [pid for _, pid in named(proc)] == [10, 11, 12]


def test_ranks_that_somebody_started_by_hand_are_none_while_none_is_missing(proc: FakeProc) -> None:
    by_hand = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    proc.add(20, env=by_hand, start=1)
    assert named(proc) == []


def test_a_helper_whose_rank_is_gone(proc: FakeProc) -> None:
    proc.add(10, env=rank_env(0))
    proc.add(11, env=rank_env(1))
    proc.add(30, env=rank_env(1) | OLD, comm="pt_data_worker")
    (one,) = found(proc, 10, 11)
    assert one.pid == 30


def test_what_is_left_of_the_job_itself_is_an_orphan_once_it_is_no_longer_starting(proc: FakeProc) -> None:
    proc.add(20, env=rank_env(0, 2), start=1)
    (one,) = found(proc, 20)
    assert (one.pid, one.why) == (20, "1 of the 2 ranks that its run had here are left")
    young = FakeProc(proc.root.parent / "young")
    up = float(Path("/proc/uptime").read_text().split()[0])
    young.add(20, env=rank_env(0, 2), start=int(up * os.sysconf("SC_CLK_TCK")))
    assert named(young, 20) == []


def test_a_stopped_rank_of_the_job_can_go_on_and_one_in_a_debugger_cannot(proc: FakeProc) -> None:
    proc.add(10, env=rank_env(0), state="T")
    proc.add(11, env=rank_env(1), state="t")
    proc.add(12, env=rank_env(0), parent=10, state="T")
    assert named(proc, 10, 11) == [("stopped", 10), ("stopped", 12)]


@given(
    parents=st.lists(st.integers(0, 6), min_size=6, max_size=6),
    keep=st.sets(st.integers(20, 25)),
    runs=st.lists(st.sampled_from(["old", "older"]), min_size=6, max_size=6),
)
def test_nobody_below_a_living_parent_is_ever_named(
    tmp_path_factory: pytest.TempPathFactory, parents: list[int], keep: set[int], runs: list[str]
) -> None:
    proc = FakeProc(tmp_path_factory.mktemp("p") / "proc")
    proc.add(6, argv=["bash"], executable="/usr/bin/bash", comm="bash")
    above = {20 + at: (1, 6, *range(20, 25))[parents[at]] for at in range(6)}
    above = {pid: parent if parent < pid else 1 for pid, parent in above.items()}
    for at, (pid, parent) in enumerate(above.items()):
        proc.add(pid, env=rank_env(at % 2, 1, TORCHELASTIC_RUN_ID=runs[at]), parent=parent)

    def way(pid: int) -> list[int]:
        return [pid, *(way(above[pid]) if pid in above else [])]

    assert not [pid for what, pid in named(proc, *keep) if what != "orphan" or 6 in way(pid)]


# --- signals -----------------------------------------------------------------------------------------------------

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(params=["pidfd", "numbers"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a pidfd, and as Python 3.8 does without."""
    if request.param == "numbers":
        monkeypatch.delattr(os, "pidfd_open")


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(source: str = orphans.SLEEP) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-S", "-c", source], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def target(pid: int, later: int = 0) -> SignalTarget:
    return SignalTarget(pid, orphans.start_ticks(pid) + later)


@pytest.mark.usefixtures("ways")
def test_term_ends_one_and_kill_the_deaf_one(start: Start) -> None:
    willing, deaf = start(), start(orphans.DEAF)
    answers = end_all([target(willing.pid), target(deaf.pid)], 0.2)
    assert [one.outcome for one in answers] == ["terminated", "killed"]
    assert (willing.wait(60), deaf.wait(60)) == (-signal.SIGTERM, -signal.SIGKILL)


@pytest.mark.usefixtures("ways")
def test_a_pid_that_is_anothers_now_gets_nothing(start: Start) -> None:
    process = start()
    (answer,) = end_all([target(process.pid, later=1)], 0.1)
    assert (answer.outcome, orphans.wait_for_state(process.pid, "S")) == ("reused", True)
    os.kill(process.pid, signal.SIGSTOP)
    assert orphans.wait_for_state(process.pid, "T")
    (answer,) = continue_all([target(process.pid, later=1)])
    assert (answer.outcome, orphans.state_of(process.pid)) == ("reused", "T")
    (answer,) = continue_all([target(process.pid)])
    assert answer.outcome == "continued"


async def test_the_program_signals_on_a_node(start: Start) -> None:
    process = start()
    targets = [(process.pid, orphans.start_ticks(process.pid)), (1 << 22, 5)]
    answers = await repair.send(Local("here"), sys.executable, "TERM", targets, grace=0.5)
    assert [(one.pid, one.outcome) for one in answers] == [(process.pid, "terminated"), (1 << 22, "gone")]
    assert process.wait(60) == -signal.SIGTERM


# --- a session's repairs -----------------------------------------------------------------------------------------


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> PaperSession:
    monkeypatch.setattr(PaperSession, "transport", lambda _session, node: Local(node))
    monkeypatch.setattr(PaperSession, "python", lambda _session, _node: sys.executable)
    monkeypatch.setenv("HANGTOP_ONLY", "HX_NOBODY=1")
    return Paper(nodes=2, gpus=1).session()


async def test_a_node_whose_ranks_are_not_known_is_not_looked_at(session: PaperSession) -> None:
    session.samples("node2", [SourceState("ranks", "denied", "processes of other users", NOW)])
    survey = await repairs.look(session)
    assert (survey.orphans, survey.stopped, list(survey.unknown)) == ((), (), ["node2"])
    assert "which ranks are the job's is not known there" in survey.unknown["node2"]


async def test_a_session_that_may_only_look_signals_nobody(
    session: PaperSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.options = replace(session.options, read_only=True)
    monkeypatch.setattr(PaperSession, "transport", lambda *_: pytest.fail("it reached for a node"))
    one = RepairCandidate("orphan", 812, 5, 0.0, 0, "ada", "old", "python train.py", "S", [29500], "why")
    with pytest.raises(ProbeRefused, match="--read-only"):
        await repairs.signal_probe(session, "End", "TERM", [Repairable("node1", one, 7200.0, 3 << 30)]).run(print)


# --- the command -------------------------------------------------------------------------------------------------

RUN = [sys.executable, "-c", "from hangtop.cli.main import main; main()", "repair"]
ENV = {
    "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29555", "TORCHELASTIC_RUN_ID": "old",
}  # fmt: skip


def run(mark: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **orphans.only(mark)}
    return subprocess.run(
        [*RUN, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, env=environment,
        check=False,
    )  # fmt: skip


@contextmanager
def rank_of_the_job(mark: str) -> Iterator[int]:
    """A rank of a run that is younger than the orphan's: that run is the job."""
    env = {**ENV, "LOCAL_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "new", orphans.MARK: mark}
    command = [sys.executable, "-S", "-c", orphans.SLEEP, "train.py"]
    with subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE) as rank:
        assert rank.stdout is not None
        rank.stdout.readline()
        try:
            yield rank.pid
        finally:
            rank.kill()


def test_an_orphan_is_refused_without_a_word_and_ended_with_one() -> None:
    mark = uuid.uuid4().hex
    with orphans.orphan({**ENV, orphans.MARK: mark}, orphans.LISTENING) as (pid, port), rank_of_the_job(mark) as rank:
        assert run(mark, "orphans", "--read-only", "--yes").returncode == 2
        refused = run(mark, "orphans")
        assert refused.returncode == 2
        assert "Nobody can be asked here: --yes says so" in refused.stderr
        assert f"kill -TERM {pid}; sleep 5; kill -KILL {pid}" in refused.stderr
        assert f"listens on port {port}" in refused.stderr
        assert orphans.wait_for_state(pid, "S")
        done = run(mark, "orphans", "--yes", "--json")
        assert done.stdout, done.stderr
        row: dict[str, Any] = json.loads(done.stdout)["results"][0]
        assert (done.returncode, row["pid"], row["outcome"], row["ports"]) == (0, pid, "terminated", [port])
        assert orphans.state_of(pid) == ""
        assert orphans.wait_for_state(rank, "S")
