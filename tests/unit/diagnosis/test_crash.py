"""After a failure: who failed first, who fell over afterwards, and who was only told to end."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from collectors.samples.host import Interface
from collectors.samples.stream import SourceState
from hangtop.diagnosis.failures.unheard import logs_behind
from hangtop.diagnosis.job import JobMotion
from hangtop.diagnosis.waits.job_status import status_of_job
from tests.support.jobs import ALL_REDUCE, BACKWARD, COMPUTING, MOVING, NOW, Sketch, alarms, first, kinds


def victim(job: Sketch, *ranks: int, ago: float = 50.0) -> Sketch:
    """Ranks that lost their connections."""
    for rank in ranks:
        job.says("gloo.closed", rank, ago=ago, peer="[10.0.0.2]:4000", text="Connection closed by peer")
        job.says("python.exception", rank, ago=ago, type="RuntimeError", message="Connection closed by peer",
                 signature="connection", consequence=True)  # fmt: skip
    return job


def test_failures_before_a_restart_are_history() -> None:
    job = Sketch(age=60.0)
    job.ranks().at(COMPUTING, BACKWARD).pulse(switches=30, cores=0.9)
    job.says("python.exception", 1, ago=100, type="ValueError", message="old", signature="user")
    job.says("gloo.closed", 0, ago=99, peer="x")
    assert alarms(job.verdict()) == []


def test_a_rank_that_is_gone_and_that_a_peer_lost_was_killed_whoever_still_waits() -> None:
    """Rank 3 is alive and has not yet written that it lost its peer; nobody could be looked into since."""
    job = victim(Sketch(), 0, 2, ago=4.0)
    job.ranks(0, 2, 1).gone(ago=3.0)
    job.ranks(3).at(ALL_REDUCE).unread("torn")
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_killed", (1,))
    job.ranks(1).absent()
    assert "rank_killed" not in kinds(job.verdict()), "one that was never seen may have ended well"


def test_killed_before_all_victims_have_been_read() -> None:
    """Live, seconds after: tracebacks are still being written, rank 3 was not read, and all name the node of rank 1."""
    job = Sketch()
    for rank, name in ((0, "node1"), (2, "node2")):
        job.says("gloo.closed", rank, ago=2, node=name, peer="[10.0.0.1]:4000")
    for index in (1, 2):
        eth = Interface("eth0", 1500, None, True, [f"10.0.0.{index}/24"], "physical")
        job.node(f"node{index}", interfaces=(eth,))
    job.ranks().gone(ago=2.0)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_killed", (1,))
    assert "[10.0.0.1]" not in found.summary


@pytest.mark.parametrize(
    ("motion", "ago", "crashed"),
    [
        (JobMotion(False, last_step=7, last_step_at=NOW - 60.0), 60.5, True),
        (JobMotion(None), 60.0, True),
        (JobMotion(False, last_step=900, last_step_at=NOW - 60.0), 500.0, False),  # it was caught, and logged
        (MOVING, 60.0, False),
    ],
)
def test_who_raised_and_cannot_be_looked_into_has_failed_if_nothing_moves_since(
    motion: JobMotion, ago: float, crashed: bool
) -> None:
    job = Sketch()
    job.ranks().at(ALL_REDUCE).unread("denied: may not be traced")
    job.motion = motion
    job.says("python.exception", 2, ago=ago, type="ValueError", message="loss is nan", signature="user")
    assert ("rank_crashed" in kinds(job.verdict())) == crashed


# --- ranks that said that they had not destroyed their groups left by themselves ----------------------------------


RAISED: dict[str, Any] = {"type": "KeyError", "message": "'lr'", "signature": "user", "consequence": False}


def waited_for(*, seen: bool) -> Sketch:
    """Three ranks wait for rank 2, which is gone: since ten seconds, or from before anybody looked."""
    job = Sketch()
    job.ranks(0, 1, 3).at(ALL_REDUCE)
    if seen:
        job.ranks(2).gone(ago=10.0)
    else:
        job.ranks(2).absent()
    return job


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "never seen"])
def test_a_rank_that_reports_its_exit_left_by_itself_unless_it_raised(seen: bool) -> None:
    found = first(waited_for(seen=seen).says("torch.program_exit", 2, ago=11.0).verdict())
    assert (found.kind, found.ranks) == ("rank_left_early", (2,))
    assert "finished while 3 others wait in a collective" in found.summary
    assert "line of torch.program_exit" in [line.text for line in found.evidence]
    job = waited_for(seen=seen).says("python.exception", 2, ago=12.0, **RAISED).says("torch.program_exit", 2, ago=11.0)
    assert (first(job.verdict()).kind, first(job.verdict()).ranks) == ("rank_crashed", (2,))


# --- a kill that nobody can pin on a rank by its number -----------------------------------------------------------


AGE = 600.0


def without_rank_2(ago: float, *, node: str = "node2", pid: int = 31_337) -> Sketch:
    """Nobody is rank 2, of two nodes; the kernel of one killed a process so long ago."""
    job = Sketch(age=AGE)
    job.ranks(0, 1, 3).at(ALL_REDUCE)
    job.ranks(2).absent()
    return job.says("kernel.oom", node=node, ago=ago, pid=pid, process="python")


def test_a_kill_since_the_job_began_where_a_rank_is_missing_is_told() -> None:
    found = first(without_rank_2(60.0).verdict())
    assert (found.kind, found.ranks) == ("rank_killed", (2,))
    assert "the kernel killed process 31337 (python) there 60 s ago, out of memory" in found.summary
    assert "memory" in found.advice
    assert any("kernel.oom" in proof.text for proof in found.evidence)


@pytest.mark.parametrize(
    ("ago", "node", "pid"),
    [(AGE + 30.0, "node2", 31_337), (60.0, "node1", 31_337), (60.0, "node2", 1003)],
    ids=["before the job", "on another node", "of a rank that lives"],
)
def test_other_kills_are_not(ago: float, node: str, pid: int) -> None:
    found = first(without_rank_2(ago, node=node, pid=pid).verdict())
    assert (found.kind, found.ranks) == ("rank_killed", (2,))
    assert "killed" not in found.summary


@pytest.mark.parametrize(("ago", "told"), [(11.0, True), (40.0, False)])
def test_a_kill_at_the_end_of_a_rank_that_was_seen_is_told(ago: float, told: bool) -> None:
    job = Sketch(age=AGE)
    job.ranks().at(ALL_REDUCE)
    job.ranks(3).gone(ago=10.0)
    found = first(job.says("kernel.oom", node="node2", ago=ago, pid=31_337, process="python").verdict())
    assert (found.kind, found.ranks) == ("rank_killed", (3,))
    assert ("the kernel killed process 31337" in found.summary) is told


# --- a rank left no word: that can be said once logs were read since then -----------------------------------------


OK = {"logs": SourceState("logs", "ok", "", NOW - 60)}


def job_of(*, ago: float, read: tuple[float, ...]) -> Sketch:
    """Rank 2 has gone; the nodes have read their logs to these times."""
    job = Sketch()
    job.ranks(0, 1, 3).at(ALL_REDUCE)
    job.ranks(2).gone(ago)
    for index, at in enumerate(read, 1):
        job.node(f"node{index}", sources=OK, logs_read=at)
    return job


def heard(job: Sketch) -> bool:
    return not logs_behind(status_of_job(job.job()))


def test_a_rank_is_called_killed_once_every_node_has_read_its_logs() -> None:
    """One may read the log of another's rank, where they share a file system."""
    whole = job_of(ago=5, read=(NOW - 4, NOW - 3))
    assert "rank_killed" in kinds(whole.verdict())
    assert heard(whole)
    for read in ((NOW - 6, NOW - 3), (NOW - 3, NOW - 6), (NOW - 3, -inf)):
        half = job_of(ago=5, read=read)
        assert "rank_killed" not in kinds(half.verdict())
        assert not heard(half)


def lost(*, read: float) -> Sketch:
    """All ranks are gone: three say that they lost the connection to another, and rank 2 has said nothing yet."""
    job = Sketch()
    job.ranks().gone(ago=2.0)
    victim(job, 0, 1, 3, ago=2)
    for index in (1, 2):
        job.node(f"node{index}", sources=OK, logs_read=NOW - read)
    return job


def test_nobody_is_accused_of_silence_before_all_logs_are_read() -> None:
    verdict = lost(read=1).verdict()
    assert (first(verdict).kind, first(verdict).ranks) == ("rank_killed", (2,))
    assert not [one for one in verdict.unknown if one.source == "logs"]
    verdict = lost(read=3).verdict()
    assert "rank_killed" not in kinds(verdict)
    assert [one.nodes for one in verdict.unknown if one.source == "logs"] == [("node1", "node2")]
