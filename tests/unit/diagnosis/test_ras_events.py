"""What RAS noticed while a job stood still: who is lost, and who is not."""

from __future__ import annotations

import pytest

from collectors.samples.collectives import RasEvent
from hangtop.diagnosis.collectives.ras import lost_peers
from hangtop.diagnosis.finding import Finding
from tests.support.jobs import NOW, Sketch


def event(name: str, rank: int = 2, *, ago: float = 5.0, pid: int | None = None) -> RasEvent:
    """Of a rank of the sketched job."""
    number = 1000 + rank if pid is None else pid
    return RasEvent(NOW - ago, name, "node1" if rank < 2 else "node2", number, [0], "peer not responding for 5s")


def found(*events: RasEvent, stood_still: float | None = 30.0) -> list[Finding]:
    job = Sketch(stood_still=stood_still)
    job.ranks().at(["spin x.py:1"])
    job.ras_events.extend(events)
    told = [one for one in job.verdict().findings if one.kind == "rank_missing"]
    return [one for one in told if any(piece.source == "NCCL RAS, monitor" for piece in one.evidence)]


def test_a_process_that_was_given_up_is_missing() -> None:
    (one,) = found(event("PEER_UNRESPONSIVE", ago=20), event("PEER_DEAD"))
    assert (one.ranks, one.nodes) == ((2,), ("node2",))
    assert one.summary.startswith("NCCL has given rank 2 up")
    assert one.evidence[0].text == "PEER_DEAD process 1002 on node2 (GPU 0): peer not responding for 5s"


def test_a_process_that_is_silent_is_missing_until_it_answers() -> None:
    (one,) = found(event("PEER_UNRESPONSIVE"))
    assert one.summary == "rank 2 no longer answers NCCL's keepalives"
    assert found(event("PEER_UNRESPONSIVE"), event("PEER_RECOVERED", ago=2)) == []


@pytest.mark.parametrize(
    ("events", "stood_still"),
    [
        ([event("PEER_DEAD", ago=60)], 30.0),  # before this wait
        ([event("PEER_DEAD")], None),  # nothing is known of a wait
        ([event("PEER_DEAD", pid=90_000)], 30.0),  # another job's
        ([event("PEER_CONNECTING"), event("PEER_DISCONNECTED"), event("PEER_RETRY")], 30.0),  # connections come and go
    ],
)
def test_events_that_mean_nothing(events: list[RasEvent], stood_still: float | None) -> None:
    assert found(*events, stood_still=stood_still) == []


def test_who_was_given_up_is_dead_until_another_is_there() -> None:
    (one,) = lost_peers([event("PEER_DEAD"), event("PEER_UNRESPONSIVE")])
    assert one.dead
    assert lost_peers([event("PEER_DEAD"), event("PEER_NEW")]) == ()
