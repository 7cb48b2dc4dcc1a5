"""A rank that waits for what the job has no part in: an answer, a program, a lock on a file, or a file that comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from collectors.samples.ranks import Helper
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, NOW, Sketch, first
from tests.support.stacks import STDLIB

ASKS = ["read_batch feed.py:40", "main run.py:9"]
RUNS = [f"Popen.wait {STDLIB}/subprocess.py:1264", "sync run.py:30", "main run.py:9"]


def told(
    held: float, stack: list[str], call: str, on: str = "", child: str = "", role: str = "helper", wchan: str = ""
) -> Finding:
    """What is said of rank 2, for which the others have waited so long; ``child`` is its program's state."""
    sketch = Sketch(watched=held, span=held, stood_still=held, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(stack, syscall=call, waiting_on=on)
    if child:
        sketch.ranks(2).helpers(Helper(2000, 1002, role, child, wchan, 0.1, 1, "aws s3 sync"))
    return first(diagnose(sketch.job()))


OUTSIDE = [
    (ASKS, "recvfrom", "tcp 10.0.0.9:443", ""), (ASKS, "recvfrom", "socket", ""), (ASKS, "read", "pipe", "S"),
    (ASKS, "flock", "/cache/index.lock", ""), (RUNS, "wait4", "process 2000", "S"),
    (RUNS, "wait4", "process 2000", ""),
    ([f"BaseFileLock.acquire {STDLIB}/site-packages/filelock/_api.py:302", *ASKS], "clock_nanosleep",
     "its clock for 0 s more", ""),
]  # fmt: skip


@pytest.mark.parametrize(("stack", "call", "on", "child"), OUTSIDE)
@pytest.mark.parametrize(("held", "sure"), [(7.0, ""), (9.0, "possible"), (25.0, "likely")])
def test_it_is_given_some_seconds_and_never_proven_at_once(
    stack: list[str], call: str, on: str, child: str, held: float, sure: str
) -> None:
    found = told(held, stack, call, on, child)
    assert found.ranks == (2,)
    assert (found.certainty if found.severity == "critical" else "") == sure


@pytest.mark.parametrize(("held", "sure"), [(9.0, ""), (19.0, ""), (25.0, "likely"), (65.0, "proven")])
def test_who_looks_again_after_each_short_sleep_was_written_to_wait_for_long(held: float, sure: str) -> None:
    found = told(held, ASKS, "clock_nanosleep")
    assert found.ranks == (2,)
    assert (found.certainty if found.severity == "critical" else "") == sure


def moved_by_helpers(sketch: Sketch, grown: Sequence[int]) -> Finding:
    """The first finding where the helpers of rank 2 had moved so many bytes more by each look at it."""
    job = sketch.job()
    own = job.ranks[2]
    looks = tuple(
        look._replace(value=look.value._replace(helpers_bytes=(1 << 20) + more))
        for look, more in zip(own.looks, grown, strict=True)
    )
    return first(diagnose(replace(job, ranks=(*job.ranks[:2], replace(own, looks=looks), *job.ranks[3:]))))


@pytest.mark.parametrize(("moved", "critical"), [((0, 0, 0, 0), True), ((0, 900, 1800, 2700), False)])
def test_a_program_that_does_a_little_now_and_then_is_given_longer(moved: tuple[int, ...], critical: bool) -> None:
    """A script that sleeps between its attempts, or a copy over a slow line; one that hangs does nothing at all."""
    sketch = Sketch(watched=12.0, span=12.0, stood_still=12.0, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(RUNS, syscall="wait4", waiting_on="process 2000")
    sketch.ranks(2).helpers(Helper(2000, 1002, "helper", "S", "", 0.1, 1, "bash fetch.sh"))
    grown = (*[0] * (len(sketch.job().ranks[2].looks) - 4), *moved)
    assert (moved_by_helpers(sketch, grown).severity == "critical") is critical


@pytest.mark.parametrize(
    ("stack", "call", "on", "child"),
    [
        (ASKS, "read", "/data/shard-7", ""),
        (ASKS, "read", "pipe", ""),
        (RUNS, "wait4", "process 2000", "T"),
        (RUNS, "wait4", "process 2000", "Z"),
    ],
)
def test_what_nobody_will_bring_is_told_at_once(stack: list[str], call: str, on: str, child: str) -> None:
    found = told(6.0, stack, call, on, child)
    assert (found.severity, found.ranks) == ("critical", (2,))


@pytest.mark.parametrize(("targets", "severity"), [(("process 2000", "process 2001"), "info"), (("", ""), "critical")])
def test_programs_that_the_kernel_told_one_after_another_are_work(targets: tuple[str, str], severity: str) -> None:
    """Each lives for less than a second: the newest known one is gone, and the next not known yet."""
    sketch = Sketch(watched=15.0, span=15.0, stood_still=15.0, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(RUNS, syscall="wait4")
    job = sketch.job()
    own = [dump for dump in job.stacks if dump.pid == 1002]
    told_of = {dump.at: targets[place % 2] for place, dump in enumerate(own)}
    stacks = [dump._replace(waiting_on=told_of[dump.at]) if dump.pid == 1002 else dump for dump in job.stacks]
    found = first(diagnose(replace(job, stacks=tuple(stacks))))
    assert (found.severity, found.ranks) == (severity, (2,))


FORKS = [f"Process.join {STDLIB}/multiprocessing/process.py:149", "publish run.py:30", "main run.py:9"]


@pytest.mark.parametrize(
    ("call", "wchan", "sure"),
    [
        ("wait4", "hrtimer_nanosleep", ""),
        ("wait4", "pipe_read", ""),
        ("wait4", "futex_wait_queue", "critical"),
        ("poll", "hrtimer_nanosleep", "critical"),
    ],
)
def test_the_end_of_a_fork_that_lives_is_waited_for_and_no_worker_or_one_that_wants_a_lock(
    call: str, wchan: str, sure: str
) -> None:
    """A fork that writes slowly was proven to hold up the others as soon as its rank waited for its end."""
    found = told(6.0, FORKS, call, "process 2000" if call == "wait4" else "", "S", "data_worker", wchan)
    assert (found.ranks, found.severity if found.severity == "critical" else "") == ((2,), sure)


@pytest.mark.parametrize(("bytes_per_s", "critical"), [(0.0, True), (200.0, True), (12_000.0, False)])
def test_who_writes_to_a_pipe_that_is_emptied_slowly_makes_its_way(bytes_per_s: float, critical: bool) -> None:
    """Debug output through a slow reader; of a full pipe that nobody empties nothing goes."""
    sketch = Sketch(watched=25.0, span=25.0, stood_still=25.0, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(ASKS, syscall="write", waiting_on="pipe").pulse(written=bytes_per_s)
    assert (first(sketch.verdict()).severity == "critical") is critical


@pytest.mark.parametrize(("grown", "severity"), [(0, "critical"), (4_000, "critical"), (40_000, "info")])
def test_a_program_that_copies_over_a_slow_path_all_the_while_is_given_a_minute(grown: int, severity: str) -> None:
    sketch = Sketch(watched=25.0, span=25.0, looks=26, stood_still=25.0, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(RUNS, syscall="wait4", waiting_on="process 2000")
    sketch.ranks(2).helpers(Helper(2000, 1002, "helper", "S", "pipe_write", 0.1, 1, "cp model.pt /remote"))
    found = moved_by_helpers(sketch, [grown * place for place in range(len(sketch.job().ranks[2].looks))])
    assert (found.severity, found.ranks) == (severity, (2,))


@pytest.mark.parametrize(("ago", "severity"), [(3.0, "info"), (15.0, "critical")])
def test_a_wait_for_the_end_of_a_process_counts_from_when_the_rank_came_to_it(ago: float, severity: str) -> None:
    """It wrote to a fork until now, and waits for that to be through."""
    sketch = Sketch(watched=25.0, span=25.0, stood_still=25.0, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(RUNS, syscall="wait4", waiting_on="process 2000")
    sketch.ranks(2).helpers(Helper(2000, 1002, "helper", "S", "pipe_read", 0.1, 1, "tee log"))
    job = sketch.job()
    own = job.ranks[2]
    looks = tuple(look._replace(value=look.value._replace(idle_since=NOW - ago)) for look in own.looks)
    found = first(diagnose(replace(job, ranks=(*job.ranks[:2], replace(own, looks=looks), *job.ranks[3:]))))
    assert (found.severity, found.ranks) == (severity, (2,))
