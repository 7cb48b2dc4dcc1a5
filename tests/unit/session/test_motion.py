"""What proves that a job moves: each sign has a case in which it is motion, and one in which it is none."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from collectors.fleet.sink import LinkChange
from collectors.samples.gpus import GpuFacts, GpuProcess, GpuProcesses
from collectors.samples.host import Counters, Interface
from collectors.samples.logs import CommProgress, LogFile, StepCount
from collectors.samples.ranks import RankPulse
from tests.support.made import gpu_row
from tests.support.pulses import Behaviour, Job, polls, sleeps, spins, works


def motion(job: Job) -> tuple[bool | None, str]:
    told = job.progress.motion
    return told.moving, told.proof


def step(job: Job, value: float | None, grown: int, pid: int | None = 1000, **fields: object) -> StepCount:
    path = str(fields.pop("path", f"/logs/{pid}.out"))
    known = StepCount(path, pid, "step", value, job.now, grown)
    return known._replace(**fields)  # type: ignore[arg-type]


def feed(job: Job, *samples: NamedTuple) -> None:
    job.intake.samples("node1", samples)


# --- steps -----------------------------------------------------------------------------------------------------------


def test_steps_that_a_log_tells_prove_that_the_job_moves() -> None:
    job = Job()
    feed(job, step(job, 1204, 0))
    for done in range(1, 6):
        job.run(1, spins)
        feed(job, step(job, 1204 + 3 * done, 3 * done, longest=1 / 3))
    job.run(1, spins)
    assert motion(job) == (True, "step 1,204 to 1,219 in 5 s")
    assert job.progress.stood_still == 1.0
    assert job.progress.motion.step_s == pytest.approx(1 / 3)
    assert (job.progress.motion.last_step, job.progress.motion.last_step_at) == (1219, job.now - 1.0)


def test_steps_of_before_and_steps_of_another_run_prove_nothing() -> None:
    job = Job()
    feed(job, step(job, 1204, 0))
    job.run(20, spins)
    assert motion(job) == (False, "")
    assert job.progress.motion.last_step == 1204
    job = Job()
    for done in range(5):
        feed(job, step(job, 100 + done, done, 1003))
        job.run(1, spins)
        list(job.progress.updating(job.now, {("node1", 1003)}))
    assert motion(job) == (False, "")


def test_a_heartbeat_that_grows_a_log_is_no_motion() -> None:
    """One line every thirty seconds, for ever."""
    job = Job()
    job.run(5, works)
    for beat in range(4):
        feed(job, LogFile("/logs/0.out", "1:1", 1000, 0, "stdout", 1000 + 40 * beat, "", ""))
        job.run(30, sleeps)
    assert job.progress.stood_still == pytest.approx(120, abs=1)
    assert motion(job) == (False, "")


# --- collectives -----------------------------------------------------------------------------------------------------


def collective(rank: int, launched: int) -> CommProgress:
    return CommProgress(
        "0x1", rank, 4, rank, "node1", 1000 + rank, "AllReduce", 4, "float32", 0, launched, None, "/nccl", 1
    )


def test_collectives_that_are_launched_are_motion() -> None:
    job = Job()
    for launched in range(100, 110):
        feed(job, *(collective(rank, launched) for rank in range(4)))
        job.run(1, spins)
    assert motion(job) == (True, "4 ranks launching collectives")
    assert job.progress.stood_still == 0.0


# --- traffic ---------------------------------------------------------------------------------------------------------


def exchange(job: Job, seconds: int, sent: float, received: float, kind: str = "physical") -> None:
    feed(job, Interface("eth0", 1500, 100_000, True, [], kind))
    for _ in range(seconds):
        job.now += 1.0
        out, back = int(sent * job.now), int(received * job.now)
        feed(
            job,
            *job.pulses.values(),
            Counters("eth0", "interface", {"received": back, "sent": out}),
            job.ticked(),
        )
        list(job.progress.updating(job.now))


def test_what_a_node_sends_and_receives_is_motion() -> None:
    job = Job()
    exchange(job, 10, 1.2e9, 1.2e9)
    assert motion(job) == (True, "4 ranks exchanging data with other nodes")
    assert job.progress.stood_still == 0.0


@pytest.mark.parametrize(
    ("sent", "received", "kind"),
    [
        (40e3, 40e3, "physical"),  # keepalives and our own channel
        (500e6, 2e6, "physical"),  # a checkpoint that is written
        (2e6, 500e6, "physical"),  # data that are read
        (1e9, 1e9, "loopback"),
    ],
)
def test_other_traffic_is_none(sent: float, received: float, kind: str) -> None:
    job = Job()
    exchange(job, 10, sent, received, kind)
    assert motion(job) == (False, "")
    assert job.progress.stood_still == 9.0


# --- GPUs ------------------------------------------------------------------------------------------------------------


def gpus(job: Job) -> None:
    for index in range(job.ranks):
        feed(job, GpuFacts(index, f"GPU-{index}", _bus(index), "H200", None, 700.0, None, None, None))
    feed(job, GpuProcesses([GpuProcess(_bus(index), 1000 + index, None, None, "python") for index in range(job.ranks)]))


def _bus(index: int) -> str:
    return f"00000000:{index:02X}:00.0"


def shine(job: Job, seconds: int, power: float, utilization: int, slope: float = 0.0, host: Behaviour = spins) -> None:
    for second in range(seconds):
        watts = power + slope * second
        feed(job, *(gpu_row(index, power=watts, utilization=utilization) for index in range(job.ranks)))
        job.run(1, host)


def test_gpus_that_compute_are_motion_however_evenly_they_do() -> None:
    job = Job()
    gpus(job)
    shine(job, 20, 610.0, 100)
    assert motion(job) == (True, "4 ranks computing on their GPUs")
    assert (job.progress.stood_still, job.progress.motion.by_gpus) == (0.0, True)
    shine(job, 20, 610.0, 100, host=works)
    assert job.progress.motion.by_gpus is False, "their hosts work, too"


@pytest.mark.parametrize(
    ("power", "utilization", "slope"),
    [
        (152.0, 100, 0.0),  # a collective that spins
        (120.0, 0, 0.0),  # nothing to do
        (330.0, 0, 0.0),  # hot, but not in use
        (150.0, 100, 0.5),  # it warms up
    ],
)
def test_gpus_that_spin_or_idle_are_none(power: float, utilization: int, slope: float) -> None:
    job = Job()
    gpus(job)
    shine(job, 60, power, utilization, slope)
    assert motion(job) == (False, "")
    assert job.progress.stood_still == pytest.approx(59, abs=1)


# --- the CPU ---------------------------------------------------------------------------------------------------------


def poller(rate: int, cpu: float, jitter: int = 0) -> Behaviour:
    """Wakes so many times a second and uses so much of a core for it."""

    def wait(p: RankPulse) -> RankPulse:
        now = rate + (jitter if int(p.voluntary_switches) % 2 else -jitter)
        return p._replace(voluntary_switches=p.voluntary_switches + now, cpu_user=round(p.cpu_user + cpu, 2))

    return wait


def ticks_seldom(p: RankPulse) -> RankPulse:
    """JAX's wait as /proc tells it: five wakes a second, and every third second a hundredth of CPU time."""
    woken = p.voluntary_switches + 5
    return p._replace(voluntary_switches=woken, cpu_user=round(p.cpu_user + (0.01 if woken // 5 % 3 == 0 else 0.0), 2))


WAITS = {
    "JAX": poller(5, 0.0, 1),
    "JAX, by the kernel's ticks": ticks_seldom,
    "a file lock": poller(10, 0.01, 1),
    "a blocking wait of torch": poller(901, 0.01, 30),
    "NCCL's bootstrap": poller(14_001, 0.1, 900),
    "a second's time-out": poller(1, 0.0),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("worked", [0, 10])
def test_to_look_again_and_again_is_no_motion(wait: Behaviour, worked: int) -> None:
    job = Job()
    job.run(worked, works)
    job.run(30, wait)
    assert motion(job) == (False, "")
    assert job.progress.stood_still == pytest.approx(30, abs=3)


def test_one_busy_rank_proves_nothing_for_the_others() -> None:
    """Nor do two of eight."""
    job = Job(ranks=8)
    job.run(20, polls, r2=works, r3=works)
    assert motion(job) == (False, "")


def writes(size: int, every: int = 1) -> Behaviour:
    def save(p: RankPulse) -> RankPulse:
        due = round(p.rss) % every == 0
        return p._replace(written_bytes=(p.written_bytes or 0) + (size if due else 0), rss=p.rss + 1)

    return save


@pytest.mark.parametrize(
    ("work", "moves"),
    [
        (poller(5, 0.03), True),  # steps of a few milliseconds
        (poller(1_000, 0.5), True),
        (writes(5_000_000), True),
        (writes(10_000), False),  # a log
        (writes(300_000, every=5), False),  # figures now and then
    ],
)
def test_to_compute_read_or_write_in_earnest_is_motion(work: Behaviour, moves: bool) -> None:
    job = Job()
    job.run(20, work)
    assert motion(job) == ((True, "4 ranks computing, reading or writing") if moves else (False, ""))


# --- what is not seen ------------------------------------------------------------------------------------------------


def test_a_node_that_falls_silent_proves_nothing_any_more() -> None:
    job = Job()
    job.run(10, works)
    assert motion(job)[0] is True
    for _ in range(10):
        job.now += 1.0
        list(job.progress.updating(job.now))
    assert motion(job)[0] is not True
    assert job.progress.stood_still == pytest.approx(3, abs=1)
    job.intake.link(LinkChange("node1", "lost", "timed out", job.now))
    job.now += 600
    list(job.progress.updating(job.now))
    assert (*motion(job), job.progress.stood_still) == (None, "", None)
    job.intake.link(LinkChange("node1", "live", "", job.now))
    assert job.run(1, works) == 0.0


# --- since when ------------------------------------------------------------------------------------------------------


def test_spinners_that_stood_before_the_watch_stand_since_the_last_step_of_their_log() -> None:
    job = Job()
    feed(job, step(job, 1204, 0, at=job.now - 600.0, every=12.0))
    assert job.run(4, spins) == pytest.approx(604, abs=1)
    assert job.progress.motion.last_step_at == pytest.approx(400)


def test_a_stand_that_was_found_is_told_from_the_last_step_on_and_judged_from_the_first_look_on() -> None:
    job = Job()
    feed(job, step(job, 1204, 0, at=job.now - 600.0))
    assert job.run(6, spins) == pytest.approx(6, abs=1)
    assert job.progress.motion.stands_since == pytest.approx(400)
    job.run(2, works)
    job.run(20, spins)
    assert job.progress.motion.stands_since == pytest.approx(1008, abs=1)
