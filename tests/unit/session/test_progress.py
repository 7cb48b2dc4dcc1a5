"""Whether a job moves: healthy ones do, however they pause; hung ones stand still, however busy their culprit is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from collectors.fleet.sink import LinkChange
from collectors.samples.gpus import GpuFacts, GpuProcess, GpuProcesses
from collectors.samples.logs import LogLines
from collectors.samples.ranks import RankPulse
from hangtop.session.progress import Progress
from hangtop.session.store import Store
from tests.support.made import gpu_row, hello, process, pulse, stack, tick

Behaviour = Callable[[RankPulse], RankPulse]


def works(p: RankPulse) -> RankPulse:
    """A step a second: data is handed over, gradients are exchanged."""
    return p._replace(
        cpu_user=p.cpu_user + 0.6, voluntary_switches=p.voluntary_switches + 40, written_bytes=_more(p, 5_000_000)
    )


def sleeps(p: RankPulse) -> RankPulse:
    """Waits in gloo, in a lock, in a read."""
    return p


def spins(p: RankPulse) -> RankPulse:
    """Waits in NCCL, or loops for ever."""
    return p._replace(cpu_user=p.cpu_user + 1.0, involuntary_switches=p.involuntary_switches + 80)


def polls(p: RankPulse) -> RankPulse:
    """Wakes twice a second to look."""
    return p._replace(cpu_user=p.cpu_user + 0.01, voluntary_switches=p.voluntary_switches + 2)


def wakes(p: RankPulse) -> RankPulse:
    """Waits with a time-out of a second."""
    return p._replace(voluntary_switches=p.voluntary_switches + 1)


def loops_with_sleeps(p: RankPulse) -> RankPulse:
    """A busy retry loop: never still, never any further."""
    return p._replace(cpu_user=p.cpu_user + 0.2, voluntary_switches=p.voluntary_switches + 100)


def _more(p: RankPulse, by: int) -> int:
    return (p.written_bytes or 0) + by


@dataclass
class Job:
    """Ranks on one node, a second at a time."""

    ranks: int = 4
    now: float = 1000.0
    store: Store = field(init=False)
    progress: Progress = field(init=False)

    def __post_init__(self) -> None:
        self.store = Store(clock=lambda: self.now)
        self.progress = Progress(self.store.state)
        self.pulses = {rank: pulse(1000 + rank) for rank in range(self.ranks)}
        self.store.link(LinkChange("node1", "live", "", self.now))
        self.store.samples("node1", [hello(self.now), *(process(rank) for rank in range(self.ranks))], 1)

    def run(self, seconds: int, behaviour: Behaviour, every: int = 1, **others: Behaviour) -> float | None:
        """All ranks behave so, those in ``others`` (``r2=…``) differently; returns how long the job stood still.

        It is looked at ``every`` so many seconds.
        """
        for second in range(1, seconds + 1):
            self.now += 1.0
            for rank, before in self.pulses.items():
                self.pulses[rank] = others.get(f"r{rank}", behaviour)(before)
            self.store.samples("node1", [*self.pulses.values(), tick(self.now)], 1)
            if second % every == 0:
                self.progress.look(self.now)
        return self.progress.stood_still


def test_a_working_job_never_stands_still() -> None:
    job = Job()
    assert job.run(30, works) == 0.0
    assert job.progress.usual_pause is None


@pytest.mark.parametrize("wait", [sleeps, spins, polls])
@pytest.mark.parametrize("culprit", [sleeps, spins, loops_with_sleeps, works])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_wait_is_seen_however_it_waits_and_whatever_the_culprit_does(
    wait: Behaviour, culprit: Behaviour, ranks: int
) -> None:
    job = Job(ranks)
    job.run(10, works)
    assert job.run(70, wait, r1=culprit) == pytest.approx(70, abs=1)


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
    assert job.progress.usual_pause == pytest.approx(30, abs=1)


def test_a_hang_that_was_reported_is_not_usual() -> None:
    job = Job()
    job.run(5, works)
    job.run(60, sleeps)
    job.progress.alarmed = True
    job.run(2, works)
    assert job.progress.usual_pause is None


def test_helpers_that_compile_are_work() -> None:
    def compiles(p: RankPulse) -> RankPulse:
        return p._replace(helpers_cpu=p.helpers_cpu + 1.0)

    job = Job()
    job.run(5, works)
    assert job.run(90, compiles) == 0.0


def test_most_ranks_decide_and_one_idle_rank_does_not() -> None:
    job = Job()
    assert job.run(90, works, r3=sleeps) == 0.0


def test_logs_are_a_sign_of_progress() -> None:
    job = Job(ranks=1)
    job.run(20, sleeps)
    job.store.samples("node1", [LogLines("x.out", 1000, 0, "stdout", job.now, ["step 7"], 0)], 1)
    assert job.run(1, sleeps) == 0.0


def test_a_gpu_that_glows_is_a_sign_of_progress_and_one_that_spins_is_not() -> None:
    job = Job(ranks=1)
    facts = GpuFacts(0, "GPU-0", "00000000:3B:00.0", "H200", "590", None, 700.0, None, None, None, "")
    on_it = GpuProcesses([GpuProcess("00000000:3B:00.0", 1000, None, None, "python")])
    job.store.samples("node1", [facts, gpu_row(0, power=300.0, utilization=100), on_it], 1)
    for second in range(30):
        job.store.samples("node1", [gpu_row(0, power=300.0 + second % 3, utilization=100)], 1)
        job.run(1, spins)
    assert job.progress.stood_still == pytest.approx(29, abs=1)
    job.store.samples("node1", [gpu_row(0, power=600.0, utilization=100)], 1)
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


def test_orphans_of_another_run_do_not_count() -> None:
    job = Job(ranks=4)
    for _ in range(60):
        job.run(1, sleeps, r0=works)
        job.progress.look(job.now, {("node1", 1001), ("node1", 1002), ("node1", 1003)})
    assert job.progress.stood_still == 0.0


def test_a_main_thread_that_went_elsewhere_has_moved() -> None:
    job = Job(ranks=1)
    job.run(10, sleeps)
    job.progress.saw([("node1", stack(1000, "wait", at=job.now))])
    job.run(10, sleeps)
    job.progress.saw([("node1", stack(1000, "wait", at=job.now))])
    assert job.run(1, sleeps) == pytest.approx(20, abs=1)
    job.progress.saw([("node1", stack(1000, "evaluate", at=job.now))])
    assert job.run(1, sleeps) == pytest.approx(1, abs=0.1)


def test_our_own_look_that_stopped_a_process_is_no_movement_of_its() -> None:
    job = Job(ranks=1)
    job.run(10, sleeps)
    job.progress.saw([("node1", stack(1000, "wait", at=job.now, method="native"))])
    assert job.run(1, works) == pytest.approx(10, abs=1)


def test_a_hang_that_is_older_than_the_session_is_known_at_once() -> None:
    job = Job()
    for rank, before in job.pulses.items():
        job.pulses[rank] = before._replace(idle_since=400.0 if rank != 1 else None)
    job.run(1, sleeps, r1=spins)
    assert job.progress.stood_still == pytest.approx(0, abs=1)
    assert job.run(2, sleeps, r1=spins) == pytest.approx(603, abs=1)


def test_a_main_thread_that_sleeps_while_others_work_is_not_waiting() -> None:
    def conducts(p: RankPulse) -> RankPulse:
        return p._replace(idle_since=400.0, read_bytes=(p.read_bytes or 0) + 5_000_000)

    assert Job().run(20, conducts) == 0.0


def test_a_job_without_ranks_is_neither() -> None:
    job = Job(ranks=0)
    assert job.run(5, works) is None
