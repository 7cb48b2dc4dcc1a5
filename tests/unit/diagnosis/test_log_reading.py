"""A rank that ended left no word: that can be said once logs were read since then."""

from __future__ import annotations

from collectors.samples.stream import SourceState
from hangtop.diagnosis.failures.unheard import logs_behind
from hangtop.diagnosis.waits.job_status import status_of_job
from tests.support.jobs import ALL_REDUCE, NOW, Sketch, first, kinds

OK = {"logs": SourceState("logs", "ok", "", NOW - 60)}


def job_of(*, ago: float, sources: dict[str, SourceState] = OK, read: tuple[float | None, ...]) -> Sketch:
    """Rank 2 has gone; the nodes have read their logs to these times."""
    job = Sketch()
    job.ranks(0, 1, 3).at(ALL_REDUCE)
    job.ranks(2).gone(ago)
    for index, at in enumerate(read, 1):
        job.node(f"node{index}", sources=sources, logs_read=at)
    return job


def told(job: Sketch) -> bool:
    return not logs_behind(status_of_job(job.job()))


def test_a_rank_is_called_killed_once_every_node_has_read_its_logs() -> None:
    """One may read the log of another's rank, where they share a file system."""
    whole = job_of(ago=5, read=(NOW - 4, NOW - 3))
    assert "rank_killed" in kinds(whole.verdict())
    assert told(whole)
    for read in ((NOW - 6, NOW - 3), (NOW - 3, NOW - 6), (NOW - 3, None)):
        half = job_of(ago=5, read=read)
        assert "rank_killed" not in kinds(half.verdict())
        assert not told(half)


def lost(*, read: float) -> Sketch:
    """All ranks are gone: three say that they lost the connection to another, and rank 2 has said nothing yet."""
    job = Sketch()
    job.ranks().gone(ago=2.0)
    for rank in (0, 1, 3):
        job.says("gloo.closed", rank, ago=2, peer="[10.0.0.2]:4000", text="Connection closed by peer")
        job.says("python.exception", rank, ago=2, type="RuntimeError", message="Connection closed by peer",
                 signature="connection", consequence=True)  # fmt: skip
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
