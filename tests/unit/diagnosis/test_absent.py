"""Ranks that are not there, that leave, and jobs that do not come up."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.samples.ranks import IdleLauncher
from hangtop.diagnosis.job import JobMotion
from tests.support.jobs import (
    ALL_REDUCE,
    BACKWARD,
    COMPUTING,
    INIT,
    MOVING,
    NOW,
    Sketch,
    alarms,
    c10d,
    first,
    kinds,
)


def test_missing() -> None:
    job = Sketch()
    job.ranks(0, 1, 3).at(ALL_REDUCE)
    job.ranks(2).absent()
    found = first(job.verdict())
    assert (found.kind, found.ranks, found.nodes) == ("rank_killed", (2,), ("node2",)), "it was there, with rank 3"
    job.ranks(0, 1, 3).process(local_rank=None)
    found = first(job.verdict())
    assert (found.kind, found.ranks, found.severity) == ("rank_missing", (2,), "critical")
    assert "of 4" in found.summary
    verdict = job.verdict()
    assert next(box.doing for box in verdict.waits if box.blamed) == "is on no node in view"


@pytest.mark.parametrize(("age", "outcome"), [(45.0, "starting"), (150.0, "waiting")])
def test_one_that_makes_its_way_before_the_start_is_given_two_minutes(age: float, outcome: str) -> None:
    """It builds an index of its data, in code of its own."""
    job = Sketch(age=age)
    job.ranks(0, 1, 3).at(INIT)
    build = ["main train.py:9"]
    job.ranks(2).at(["add index.py:7", *build], ["split words.py:3", *build], state="R").pulse(cores=1.0)
    job.stood_still = age - 5.0
    assert job.verdict().outcome == outcome


def test_one_that_stays_where_it_is_before_the_start_is_told_at_once() -> None:
    job = Sketch(age=45.0)
    job.ranks(0, 1, 3).at(INIT)
    job.ranks(2).at(["open_index index.py:7", "main train.py:9"])
    job.stood_still = 40.0
    found = first(job.verdict())
    assert (found.kind, found.severity, found.ranks) == ("init_hang", "critical", (2,))
    assert found.advice.startswith("Look at what it does there")


def test_all_are_there_and_do_not_meet() -> None:
    job = Sketch(age=120.0)
    job.ranks().at(INIT)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("init_hang", ())
    assert "node1:29500" in found.summary
    job.ranks(3).process(master_addr="10.9.9.9")
    assert first(job.verdict()).ranks == (3,), "it looks for another master"
    job.ranks(2).unread("denied: ptrace")
    assert "init_hang" not in kinds(job.verdict()), "nobody knows where rank 2 is"


@pytest.mark.parametrize(("age", "outcome"), [(12.0, "starting"), (180.0, "hung")])
def test_launchers_that_have_started_no_rank(age: float, outcome: str) -> None:
    """They wait for further nodes; said is since when the last of them has waited."""
    job, command = Sketch(), "torchrun --nproc-per-node 2 --nnodes 3 --rdzv-backend c10d train.py"
    job.by_number.clear()
    for index, since in ((1, 400.0), (2, age)):
        job.node(f"node{index}", launchers=(IdleLauncher(70 + index, NOW - since, command),), link="live")
    verdict = job.verdict()
    assert (verdict.outcome, kinds(verdict)) == (outcome, ["init_hang"] if outcome == "hung" else [])
    assert verdict.summary.startswith("torchrun has had no rank on node1 and node2 for ")
    job.says("python.exception", 0, ago=5.0, type="KeyError", signature="user")
    assert "torchrun" not in job.verdict().summary


def test_all_ended_while_they_were_watched() -> None:
    job = Sketch()
    job.ranks().gone(ago=3.0)
    verdict = job.verdict()
    assert (verdict.outcome, kinds(verdict)) == ("unknown", [])
    assert "all 4 ranks ended 3 s ago" in verdict.summary
    job.says("job.finished", 0, ago=4.0)
    assert job.verdict().outcome == "idle"


def test_nodes_without_a_rank_whose_log_goes_on_are_not_idle() -> None:
    """Its ranks are where nobody may see them, in a container or as another user."""
    job = Sketch(world=0, motion=MOVING)
    verdict = job.verdict()
    assert (verdict.outcome, verdict.findings) == ("unknown", ())
    assert "a log grows: 4 ranks, steps 1,204 to 1,219" in verdict.summary
    job.motion = JobMotion()
    assert job.verdict().outcome == "idle"


PAST_IT = c10d("init_process_group", "main loop.py:12", line=1899)


def at_the_start(*early: int) -> Sketch:
    """All wait to start, and these have not yet found the store."""
    job = Sketch(stood_still=30.0, age=60.0)
    job.ranks().at(PAST_IT)
    job.ranks(*early).at(INIT)
    return job


@pytest.mark.parametrize("early", [(2,), (0, 2)])
def test_who_does_not_find_the_store_is_behind_those_who_wait_for_it(early: tuple[int, ...]) -> None:
    found = first(at_the_start(*early).verdict())
    assert (found.kind, found.ranks) == ("init_hang", (2,))
    assert "rank 2 is still at the rendezvous of init_process_group, before the others" in found.summary


def test_ranks_of_one_node_that_are_gone_are_told_together() -> None:
    job = Sketch()
    job.ranks().at(ALL_REDUCE)
    job.ranks(2, 3).gone(ago=12.0)
    verdict = job.verdict()
    (found,) = [one for one in verdict.findings if one.kind == "rank_killed"]
    assert found.ranks == (2, 3)
    assert "ranks 2-3 on node2 have been gone for 12 s without a message; 2 others wait" in found.summary


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "never seen"])
@pytest.mark.parametrize(
    ("process", "told", "kind"),
    [
        ({"launcher": "torchrun", "parent": 70}, "", "rank_left_early"),
        ({"launcher": "torchrun", "adopted": True}, "", "rank_killed"),
        ({"launcher": "env"}, "", "rank_killed"),
        ({"launcher": "torchrun", "parent": 70}, "elastic.signal", "rank_killed"),
    ],
    ids=["its agent lets the others live", "its agent is gone", "another launcher", "its agent ends the others"],
)
def test_torchrun_would_have_ended_the_others_if_the_rank_that_is_gone_had_failed(
    process: dict[str, Any], told: str, kind: str, *, seen: bool
) -> None:
    job = Sketch()
    job.ranks().at(ALL_REDUCE).process(**process)
    job.ranks(2).gone(ago=45.0) if seen else job.ranks(2).absent()
    job = job.says(told, None, ago=3.0) if told else job
    job.says("python.exception", 1, ago=9000.0, type="KeyError", signature="user")  # of an earlier run
    verdict = job.verdict()
    found = next(one for one in verdict.findings if one.ranks)
    assert (found.kind, found.ranks, found.certainty) == (kind, (2,), "likely")
    if kind == "rank_left_early":
        assert found.summary == "rank 2 on node2 finished while 3 others wait in a collective"


def goes_on(ago: float, **motion: Any) -> Sketch:
    """Ranks 0 and 1 compute; those of node 2 ended so long ago."""
    job = Sketch(motion=JobMotion(True, "2 ranks computing", **motion))
    job.ranks().at(COMPUTING, BACKWARD).pulse(switches=30, cores=0.9)
    job.ranks(2, 3).gone(ago=ago)
    return job


def test_a_job_that_some_of_its_ranks_have_left_is_not_called_healthy() -> None:
    verdict = goes_on(12.0).verdict()
    assert (verdict.outcome, alarms(verdict)) == ("unknown", [])
    assert "ranks 2-3 on node2 ended 12 s ago while the others stay" in verdict.summary


@pytest.mark.parametrize(
    "job",
    [
        goes_on(3.0),
        goes_on(12.0, last_step=9, last_step_at=NOW - 1.0),
        goes_on(12.0).says("elastic.finished", None, ago=5),
    ],
    ids=["just now", "steps go on without them", "the run is over"],
)
def test_ranks_that_ended_and_are_not_missed(job: Sketch) -> None:
    assert job.verdict().outcome == "healthy"
