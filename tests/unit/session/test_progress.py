"""Whether a job moves: healthy ones do, however they pause; hung ones stand still, however busy their culprit is."""

from __future__ import annotations

import pytest

from collectors.fleet.sink import LinkChange
from collectors.samples.gpus import GpuFacts, GpuProcess, GpuProcesses
from collectors.samples.ranks import RankPulse
from tests.support.made import gpu_row, stack
from tests.support.pulses import Behaviour, Job, loops_with_sleeps, polls, polls_often, sleeps, spins, wakes, works


def test_a_working_job_never_stands_still() -> None:
    job = Job()
    assert job.run(30, works) == 0.0
    assert job.progress.usual_pause is None


@pytest.mark.parametrize("wait", [sleeps, spins, polls, polls_often])
@pytest.mark.parametrize("culprit", [sleeps, spins, loops_with_sleeps, works])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_wait_is_seen_however_it_waits_and_whatever_the_culprit_does(
    wait: Behaviour, culprit: Behaviour, ranks: int
) -> None:
    job = Job(ranks)
    job.run(10, works)
    assert job.run(70, wait, r1=culprit) == pytest.approx(70, abs=4)


@pytest.mark.parametrize("every", [1, 4])
def test_a_hang_that_was_found_is_seen_however_rarely_it_is_looked_at(every: int) -> None:
    """Nothing tells there what is usual for these ranks."""
    assert Job().run(60, wakes, every=every) == pytest.approx(60, abs=every)


def test_a_slow_job_stands_still_no_longer_than_a_step() -> None:
    job = Job()
    longest = 0.0
    for _ in range(4):
        longest = max(longest, job.run(19, spins) or 0.0)
        assert job.run(1, works) == 0.0
    assert longest <= 20
    assert job.progress.usual_pause == pytest.approx(19, abs=1)


def test_a_pause_that_the_job_came_back_from_is_its_usual_one() -> None:
    job = Job()
    job.run(5, works)
    job.run(30, sleeps, r0=spins)
    assert job.progress.usual_pause is None
    job.run(2, works)
    assert job.progress.usual_pause == pytest.approx(30, abs=1.5)


def test_a_hang_that_was_reported_is_not_usual() -> None:
    job = Job()
    job.run(5, works)
    job.run(60, sleeps)
    job.progress.alarmed = True
    job.run(2, works)
    assert job.progress.usual_pause is None


def test_a_hang_from_which_the_job_comes_back_again_and_again_is_usual() -> None:
    job = Job()
    job.run(5, works)
    for _ in range(2):
        job.run(20, sleeps)
        job.progress.alarmed = True
        job.run(1, works)
        job.progress.alarmed = False
        job.run(3, works)
    assert job.progress.usual_pause == pytest.approx(20, abs=2)


def test_a_gpu_that_glows_is_a_sign_of_progress_and_one_that_spins_is_not() -> None:
    job = Job(ranks=1)
    facts = GpuFacts(0, "GPU-0", "00000000:3B:00.0", "H200", "590", None, 700.0, None, None, None, "")
    on_it = GpuProcesses([GpuProcess("00000000:3B:00.0", 1000, None, None, "python")])
    job.store.samples("node1", [facts, gpu_row(0, power=300.0, utilization=100), on_it])
    for second in range(30):
        job.store.samples("node1", [gpu_row(0, power=300.0 + second % 3, utilization=100)])
        job.run(1, spins)
    assert job.progress.stood_still == pytest.approx(29, abs=1)
    job.store.samples("node1", [gpu_row(0, power=600.0, utilization=100)])
    assert job.run(1, spins) == 0.0


def test_what_is_not_seen_is_not_still() -> None:
    job = Job()
    job.run(5, works)
    job.store.link(LinkChange("node1", "lost", "timed out", job.now))
    job.now += 600
    job.progress.look(job.now)
    assert job.progress.stood_still is None
    job.store.link(LinkChange("node1", "live", "", job.now))
    assert job.run(1, works) == 0.0


def test_what_a_node_says_between_two_looks_is_no_look_in_which_its_ranks_slept() -> None:
    """Its slower sources speak a moment after its first look: ranks that spin were told to have come awake then."""
    job = Job()
    job.run(1, spins)
    job.now += 0.3
    job.store.samples("node1", [job.ticked()])
    job.progress.look(job.now)
    job.now -= 0.3
    assert job.run(1, spins) == pytest.approx(1.0)
    assert not job.progress.motion.moving


def test_a_main_thread_that_went_elsewhere_has_moved() -> None:
    job = Job(ranks=1)
    job.run(10, sleeps)
    job.progress.saw([("node1", stack(1000, "wait", at=job.now))])
    job.run(10, sleeps)
    job.progress.saw([("node1", stack(1000, "wait", at=job.now))])
    assert job.run(1, sleeps) == pytest.approx(20, abs=1)
    job.progress.saw([("node1", stack(1000, "evaluate", at=job.now))])
    assert job.run(1, sleeps) == pytest.approx(1, abs=0.1)


def test_a_wait_that_polls_is_found_now_in_its_check_and_now_in_its_sleep() -> None:
    def wakes_often(p: RankPulse) -> RankPulse:
        return p._replace(voluntary_switches=p.voluntary_switches + 10)

    job = Job(ranks=1)
    for look in range(6):
        job.run(10, wakes_often)
        names = ("stat", "exists", "wait_for") if look % 2 else ("sleep", "pause", "wait_for")
        job.progress.saw([("node1", stack(1000, *names, "train", "main", at=job.now))])
    assert job.run(1, wakes_often) == pytest.approx(61, abs=1)
    job.progress.saw([("node1", stack(1000, "a", "b", "c", "d", "save", "main", at=job.now))])
    assert job.run(1, wakes_often) == pytest.approx(1, abs=1)


def test_our_own_look_that_stopped_a_process_is_no_movement_of_its() -> None:
    job = Job(ranks=1)
    job.run(10, sleeps)
    job.progress.saw([("node1", stack(1000, "wait", at=job.now, method="native"))])
    assert job.run(1, works) == pytest.approx(10, abs=1)
