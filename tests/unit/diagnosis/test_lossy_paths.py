"""Where packets get lost, what ranks wait for is sent again: that takes longer than other waits, and is no hang yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.samples.fabric import Interface
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job, NetworkUse
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, READING, Sketch, first, kinds

LOSSY = NetworkUse(segments_per_s=900.0, retransmitted_per_s=250.0)
SOUND = NetworkUse(segments_per_s=900.0, retransmitted_per_s=2.0)


def waiting(still: float, *, reads: bool = False, network: NetworkUse | None = None) -> Job:
    """All wait in one collective for so long, or but one, which reads."""
    job = Sketch(nodes=2, patience=10.0, watched=90.0, span=min(still, 30.0), stood_still=still)
    job.ranks().at(ALL_REDUCE)
    if reads:
        job.ranks(2).at(READING)
    job.node("node2", network=network or NetworkUse())
    return job.job()


def lossy() -> Verdict:
    """What was said while the job still sent."""
    job = Sketch(nodes=2, watched=60.0, stood_still=0.5)
    job.node("node2", network=LOSSY)
    return job.verdict()


def after(job: Job, seconds: float, before: Verdict | None = None) -> Verdict:
    """The verdict on a picture so many seconds later."""
    known = (before or lossy()).slow
    return diagnose(replace(job, slow=tuple(one._replace(at=job.now - seconds) for one in known)))


def test_a_wait_of_all_is_given_the_time_in_which_tcp_sends_again() -> None:
    assert diagnose(waiting(18.0)).outcome == "hung", "without the loss"
    verdict = after(waiting(18.0), 17.0)
    assert (verdict.outcome, kinds(verdict)) == ("slow", ["tcp_retransmits"])
    assert "17 s ago" in verdict.summary
    assert after(waiting(18.0), 17.0, before=verdict).outcome == "slow", "it is handed on"


@pytest.mark.parametrize(("still", "ago"), [(70.0, 50.0), (18.0, 61.0)])
def test_it_ends_with_the_time(still: float, ago: float) -> None:
    assert first(after(waiting(still), ago)).kind == "collective_stalled"


def test_it_ends_when_enough_is_sent_and_nothing_is_lost() -> None:
    assert after(waiting(18.0, network=SOUND), 17.0).slow == ()
    assert after(waiting(18.0), 17.0).slow != (), "nothing is sent, which tells nothing"


def unanswered(*ends: str) -> Job:
    """All wait, and the kernel of rank 0's node sends to these again and again."""
    job = Sketch(nodes=2, patience=10.0, watched=90.0, span=12.0, stood_still=12.0)
    for index in (1, 2):
        eth = Interface("eth0", 1500, None, True, [f"10.0.0.{index}/24"], "physical")
        job.node(f"node{index}", network=NetworkUse(interfaces=(eth,)))
    job.ranks().at(ALL_REDUCE)
    job.ranks(0).at(ALL_REDUCE, unanswered=ends)
    return job.job()


def test_one_connection_that_is_not_answered_is_no_cut_where_packets_get_lost() -> None:
    one, two = unanswered("10.0.0.2:40001"), unanswered("10.0.0.2:40001", "10.0.0.2:40002")
    assert first(diagnose(one)).kind == "path_blocked"
    assert kinds(after(one, 10.0)) == ["tcp_retransmits"]
    assert first(after(two, 10.0)).kind == "path_blocked"


def test_a_rank_that_does_not_take_part_is_told_as_ever() -> None:
    found = first(after(waiting(18.0, reads=True), 17.0))
    assert (found.kind, found.ranks) == ("rank_stuck_in_data", (2,))


def test_while_the_job_moves_nothing_is_told_of_what_was_lost_before() -> None:
    assert kinds(after(waiting(1.0), 20.0)) == []
