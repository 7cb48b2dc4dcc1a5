"""What was seen to be slow stays so until looks refute it, and never stands before a hang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job, JobMotion
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, BACKWARD, COMPUTING, READING, Sketch, first, kinds
from tests.unit.diagnosis.test_slow_gpu import COMPUTE, LATE, SPIN, WAITS, steps
from tests.unit.diagnosis.test_slow_paths import between, path

SLUGGISH = ["slow_matmul model.py:50", *COMPUTING[2:]]


def moving(*of_rank_2: Sequence[str], looks: int = 5) -> Job:
    """A job in steps, looked at ``looks`` times; its ranks wait but for rank 2, which is where it is said."""
    job = Sketch(patience=60.0, watched=90.0, looks=looks, span=6.0, stood_still=0.5)
    job.motion = JobMotion(moving=True, proof="steps 4 to 9 in 25 s", last_step=9, step_s=5.0)
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    if of_rank_2 != (BACKWARD,):
        job.ranks(2).at(*of_rank_2, state="R").pulse(switches=9, cores=0.95)
    return job.job()


def after(job: Job, before: Verdict, seconds: float = 5.0) -> Verdict:
    """The verdict on a picture, so many seconds after another verdict."""
    known = tuple(known._replace(at=known.at - seconds) for known in before.slow)
    return diagnose(replace(job, slow=known))


def test_it_stays_slow_within_the_next_wait() -> None:
    before = diagnose(moving(SLUGGISH))
    job = Sketch(patience=60.0, watched=90.0, stood_still=25.0)
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).at(SLUGGISH, state="R").pulse(switches=9, cores=0.95)
    verdict = after(job.job(), before, 22.0)
    assert (verdict.outcome, first(verdict).kind, first(verdict).ranks) == ("slow", "straggler_rank", (2,))
    assert "so 22 s ago, and not refuted since" in verdict.summary
    assert diagnose(job.job()).outcome != "slow", "by these looks alone nobody could say it"
    assert verdict.slow[0].finding == before.slow[0].finding, "its age is not part of what is known"


def test_nobody_knows_whether_a_node_that_does_not_answer_holds_anything_back() -> None:
    before = diagnose(moving(SLUGGISH))
    job = Sketch(patience=60.0, watched=90.0, stood_still=25.0)
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.node("node2", link="lost", why="no answer for 8 s")
    lost = after(job.job(), before, 22.0)
    assert lost.outcome != "slow"
    assert "straggler_rank" not in kinds(lost)
    job.node("node2", link="live")
    back = after(job.job(), lost, 5.0)
    assert first(back).kind == "straggler_rank", "it is known all the same, for when the node is back"


def test_a_few_looks_in_which_it_waits_refute_nothing_and_several_do() -> None:
    before = diagnose(moving(SLUGGISH))
    assert after(moving(BACKWARD, looks=3), before).outcome == "slow"
    refuted = after(moving(BACKWARD, looks=8), before)
    assert refuted.outcome == "healthy"
    assert refuted.slow == ()


def test_another_slow_rank_takes_its_place() -> None:
    job = Sketch(looks=6)
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(1).at(SLUGGISH, state="R").pulse(switches=9, cores=0.95)
    verdict = after(job.job(), diagnose(moving(SLUGGISH)))
    assert [one.ranks for one in verdict.findings if one.kind == "straggler_rank"] == [(1,)]


def test_a_hang_is_told_when_it_is_due_and_ends_what_was_known() -> None:
    job = Sketch(stood_still=15.0, watched=90.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(2).at(READING)
    known = diagnose(moving(SLUGGISH))
    with_it, without = after(job.job(), known, 30.0), diagnose(job.job())
    assert with_it.outcome == without.outcome == "hung"
    assert kinds(with_it) == kinds(without)
    assert with_it.slow == ()


def test_a_rank_that_has_ended_is_not_slow_any_more() -> None:
    job = Sketch(looks=1, patience=60.0)
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).gone(1.0)
    assert "straggler_rank" not in kinds(after(job.job(), diagnose(moving(SLUGGISH))))


def test_so_does_one_that_was_started_anew() -> None:
    job = Sketch(looks=1, patience=60.0)
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    known = diagnose(moving(SLUGGISH))
    assert "straggler_rank" in kinds(after(job.job(), known))
    job.ranks(2).process(started=known.slow[0].at - 1.0)
    assert "straggler_rank" not in kinds(after(job.job(), known))


def loading(share: int) -> Job:
    """All ranks load data in so many of ten looks."""
    job = Sketch(looks=10, patience=60.0)
    job.ranks().at(*[READING] * share, *[COMPUTING] * (10 - share), state="R").pulse(switches=9, cores=0.9, written=1e6)
    return job.job()


def test_a_job_that_loads_data_less_often_is_still_bound_by_it_for_a_while() -> None:
    before = diagnose(loading(9))
    assert first(before).kind == "data_bound"
    assert "data_bound" not in kinds(diagnose(loading(5)))
    assert "data_bound" in kinds(after(loading(5), before))
    assert "data_bound" not in kinds(after(loading(2), before))


def test_a_path_is_slow_until_looks_meet_nothing_that_waits_on_it() -> None:
    before = between(path(25_000.0)).verdict()
    assert first(before).kind == "slow_link"
    assert "slow_link" in kinds(after(between(path(25_000.0, looks=(0, 1, 2, 3))).job(), before, 60.0)), (
        "the step is over"
    )
    assert "slow_link" in kinds(after(between([]).job(), before, 15.0)), "two looks since are too few"
    assert "slow_link" not in kinds(after(between([]).job(), before, 60.0))


def test_a_gpu_that_the_others_wait_for_is_refuted_by_gpus() -> None:
    before = steps(WAITS, WAITS, LATE, WAITS).verdict()
    often = [COMPUTE, COMPUTE, COMPUTE, COMPUTE, SPIN] * 5
    assert "straggler_rank" in kinds(after(steps(WAITS, WAITS, often, WAITS).job(), before))
    assert "straggler_rank" not in kinds(after(steps(WAITS, WAITS, WAITS, WAITS).job(), before))
    assert "straggler_rank" not in kinds(after(steps(often, often, often, often).job(), before)), "they hardly wait"
    standing = steps(WAITS, WAITS, WAITS, WAITS)
    standing.motion = replace(standing.motion, moving=None)
    assert "straggler_rank" in kinds(after(standing.job(), before)), "while nothing is seen to move nothing is refuted"
