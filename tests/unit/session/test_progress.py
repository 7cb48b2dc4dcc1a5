"""For how long a job stands still: healthy ones move, however they pause; hung ones stand, however busy one rank is."""

from __future__ import annotations

import pytest

from collectors.samples.logs import StepCount
from collectors.samples.ranks import RankPulse
from hangtop.session.motion.progress import HALF_LIFE, ProgressClock
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.made import stack
from tests.support.pulses import Behaviour, Job, loops_with_sleeps, polls, polls_often, sleeps, spins, wakes, works


def test_a_working_job_never_stands_still() -> None:
    job = Job()
    assert job.run(30, works) == 0.0
    assert job.progress.usual_pause is None


@pytest.mark.parametrize("wait", [sleeps, spins, polls, polls_often])
@pytest.mark.parametrize("culprit", [sleeps, spins, loops_with_sleeps, works])
@pytest.mark.parametrize("ranks", [2, 8])
def test_a_wait_is_seen_however_it_waits_and_whatever_the_culprit_does(
    wait: Behaviour, culprit: Behaviour, ranks: int
) -> None:
    job = Job(ranks)
    job.run(10, works)
    assert job.run(70, wait, r1=culprit) == pytest.approx(70, abs=4)


@pytest.mark.parametrize("every", [1, 4])
def test_a_hang_that_was_found_is_seen_however_rarely_it_is_looked_at(every: int) -> None:
    assert Job().run(60, wakes, every=every) == pytest.approx(60, abs=every)


@pytest.mark.parametrize("behaviour", [works, spins, polls, polls_often, wakes])
def test_of_a_node_that_is_read_every_four_seconds_the_same_is_told(behaviour: Behaviour) -> None:
    job = Job(interval=4)
    job.run(20, works)
    assert job.run(3, works) == 0.0  # what it did in these it has not told yet
    assert job.progress.motion.moving
    still = job.run(61, behaviour)
    assert still == 0.0 if behaviour is works else still == pytest.approx(61, abs=4)
    assert job.progress.usual_pause is None


def test_what_a_node_says_between_two_looks_is_no_look_in_which_its_ranks_slept() -> None:
    """Its slower sources speak a moment after its first look: ranks that spin were told to have come awake then."""
    job = Job()
    job.run(1, spins)
    job.now += 0.3
    job.intake.samples("node1", [job.ticked()])
    list(job.progress.updating(job.now))
    job.now -= 0.3
    assert job.run(1, spins) == pytest.approx(1.0)
    assert not job.progress.motion.moving


# --- pauses ----------------------------------------------------------------------------------------------------------


def test_a_slow_job_stands_still_no_longer_than_a_step() -> None:
    job = Job()
    longest = 0.0
    for _ in range(4):
        longest = max(longest, job.run(19, spins) or 0.0)
        assert job.run(1, works) == 0.0
    assert longest <= 20
    assert job.progress.usual_pause == pytest.approx(19, abs=1)


@pytest.mark.parametrize(("name", "seconds", "usual"), [("step", 7.0, 7.0), ("step", 90.0, 10.0), ("epoch", 7.0, None)])
def test_a_step_that_lasts_as_long_by_the_log_may_be_a_pause(name: str, seconds: float, usual: float | None) -> None:
    job = Job()
    job.intake.samples("node1", [StepCount("job.out", None, name, 9.0, job.now, 0, seconds, seconds)])
    job.run(3, spins)
    assert job.progress.usual_pause == usual


def test_a_pause_fades() -> None:
    job = Job()
    job.run(5, works)
    job.run(300, spins)
    job.run(1, works)
    assert job.progress.usual_pause == pytest.approx(300, abs=2)
    job.run(int(HALF_LIFE), works)
    assert job.progress.usual_pause == pytest.approx(150, abs=2)


def test_the_alarm_of_a_session_stays_within_half_of_the_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(SessionOptions(patience=20.0))
    monkeypatch.setattr(ProgressClock, "usual_pause", 900.0)
    assert session.alarm_after == session.job().alarm_after == 300.0


def test_our_own_look_that_stopped_a_process_is_no_movement_of_its() -> None:
    job = Job(ranks=1)
    job.run(10, sleeps)
    job.intake.stacks("node1", [stack(1000, "wait", at=job.now, method="native")])
    assert job.run(1, works) == pytest.approx(10, abs=1)


# --- answers to a question of ours ----------------------------------------------------------------------------------


def dumps(p: RankPulse) -> RankPulse:
    """Writes a flight recorder's dump while its main thread spins."""
    return spins(p)._replace(written_bytes=(p.written_bytes or 0) + (40 << 20))


def answers_until(job: Job, at: float) -> None:
    for rank in job.intake.state.nodes["node1"].ranks.values():
        rank.answers_until = at


def test_a_dump_that_was_asked_for_moves_nothing() -> None:
    job = Job()
    job.run(20, spins)
    answers_until(job, job.now + 3.0)
    job.run(3, dumps)
    assert (job.progress.motion.moving, job.progress.stood_still) == (False, 22.0)
    job.run(4, spins)
    assert job.progress.motion.moving is False, "nor does what it was told afterwards"


def test_what_is_written_unasked_and_later_is_motion() -> None:
    job = Job()
    job.run(20, spins)
    job.run(3, dumps)
    assert job.progress.motion.moving is True
    answers_until(job, job.now - 3.0)
    job.run(3, dumps)
    assert job.progress.motion.moving is True
