"""A rank that waits for processes that it started: they may compute for it, and are looked at seldom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from collectors.samples.ranks import Helper
from hangtop.diagnosis.job import Job, Look
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.diagnosis.waits.process_motion import motion
from tests.support.jobs import ALL_REDUCE, NOW, Sketch, alarms, first

CHILD = ["Popen._try_wait /usr/lib/python3.11/subprocess.py:1980", "run_harness train.py:30", "main train.py:9"]

READS = ["fork_server train.py:44", "main train.py:9"]
_TORCH = "/venv/lib/python3.11/site-packages/torch"
COMPILES = [
    "Condition.wait /usr/lib/python3.11/threading.py:327",
    "Future.result /usr/lib/python3.11/concurrent/futures/_base.py:451",
    f"LambdaFuture.result {_TORCH}/_inductor/codecache.py:4700",
    f"AsyncCompile.wait {_TORCH}/_inductor/async_compile.py:660",
    "<module> /tmp/torchinductor_me/fg/cfgj6jy6.py:1269",
    f"compile_fx_inner {_TORCH}/_inductor/compile_fx.py:800",
    "main train.py:9",
]
"""Its C++ compilers run meanwhile, in processes of which each lives for a second or two."""


def waiting_for_a_child(*told: float, every: float = 0.5, at: Sequence[str] = CHILD, span: float = 1.0) -> Job:
    """Rank 0 waits for a child whose CPU seconds are told at each of these looks, so many seconds apart."""
    sketch = Sketch(looks=3, span=span)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(0).at(at, syscall="wait4" if at is CHILD else "futex")
    sketch.stood_still = 9.0
    job = sketch.job()
    pulse = job.ranks[0].looks[-1].value
    looks = tuple(
        Look(NOW - every * (len(told) - 1 - place), pulse._replace(helpers_cpu=cpu)) for place, cpu in enumerate(told)
    )
    return replace(job, ranks=(replace(job.ranks[0], looks=looks), *job.ranks[1:]))


def test_a_child_whose_figure_came_before_the_last_looks_works() -> None:
    verdict = diagnose(waiting_for_a_child(0.2, 0.4, 0.8, 0.8, 0.8))
    assert (alarms(verdict), first(verdict).kind) == ([], "waiting")


def test_who_sleeps_while_it_compiles_may_wait_for_compilers_that_were_not_looked_at_twice() -> None:
    verdict = diagnose(waiting_for_a_child(0.8, 0.8, 0.8, 0.8, 0.8, at=COMPILES))
    assert (alarms(verdict), first(verdict).kind) == ([], "waiting")
    assert "main (train.py:9)" in first(verdict).summary, "the compiler's own code is not where one looks"
    verdict = diagnose(waiting_for_a_child(0.8, 1.8, 3.0, 4.1, 6.0, every=4.0, at=COMPILES))
    assert (alarms(verdict), first(verdict).kind) == ([], "waiting"), "they work"


def test_who_sleeps_while_it_compiles_is_stuck_once_no_compiler_is_seen_to_work() -> None:
    verdict = diagnose(waiting_for_a_child(0.8, 0.8, 0.8, 0.8, 0.8, every=1.25, at=COMPILES))
    assert (first(verdict).severity, first(verdict).ranks) == ("critical", (0,))


def test_a_child_that_does_nothing_is_what_the_rank_is_stuck_on() -> None:
    verdict = diagnose(waiting_for_a_child(0.8, 0.8, 0.8, 0.8, 0.8, every=1.25))
    assert (first(verdict).kind, first(verdict).ranks) == ("rank_stuck_in_code", (0,))


def test_a_child_that_was_not_looked_at_twice_may_work() -> None:
    verdict = diagnose(waiting_for_a_child(0.8, 0.8, 0.8, 0.8, 0.8))
    assert (alarms(verdict), first(verdict).kind) == ([], "waiting")


@pytest.mark.parametrize(("state", "used", "worst"), [("R", 0.02, "info"), ("S", 0.02, "critical"), ("R", 0.0, "info")])
def test_a_child_that_is_ready_to_run_works_with_the_little_that_it_is_given(
    state: str, used: float, worst: str
) -> None:
    job = waiting_for_a_child(*(0.8 + used * second for second in range(6)), every=1.25)
    child = Helper(71, job.ranks[0].process.pid, "helper", state, "", 0.8 + 5 * used, 9 << 20, "python harness.py")
    ranks = (replace(job.ranks[0], helpers=(child,)), *job.ranks[1:])
    assert first(diagnose(replace(job, ranks=ranks))).severity == worst
    if not used:  # given no CPU in the time that was watched; after a minute it may be at something that does not end
        found = first(diagnose(replace(job, ranks=ranks, stood_still=70.0)))
        assert (found.severity, found.certainty) == ("critical", "likely")


@pytest.mark.parametrize(("used", "severity"), [(0.9, "info"), (0.0, "critical")])
def test_who_reads_what_its_programs_write_waits_for_their_work(used: float, severity: str) -> None:
    """They import what they need for many seconds before the first word comes."""
    job = waiting_for_a_child(*(0.8 + used * second for second in range(6)), every=2.0, span=9.0, at=READS)
    stacks = [
        dump._replace(syscall="read", waiting_on="pipe") if dump.pid == job.ranks[0].process.pid else dump
        for dump in job.stacks
    ]
    assert first(diagnose(replace(job, stacks=tuple(stacks)))).severity == severity


def copying(*moved: int | None, every: float = 1.25) -> Job:
    """Rank 0 waits for a child that uses no CPU, of which so many bytes were told at each of these looks."""
    job = waiting_for_a_child(*(0.8 for _ in moved), every=every, span=every * (len(moved) - 1))
    looks = tuple(
        look._replace(value=look.value._replace(helpers_bytes=told))
        for look, told in zip(job.ranks[0].looks, moved, strict=True)
    )
    return replace(job, ranks=(replace(job.ranks[0], looks=looks), *job.ranks[1:]))


def test_a_child_that_copies_a_file_works_however_little_it_computes() -> None:
    assert alarms(diagnose(copying(None, None, 1 << 20, 2 << 20, 4 << 20, 4 << 20))) == []
    assert alarms(diagnose(copying(9 << 20, 9 << 20, 9 << 20, (9 << 20) + 4000, (9 << 20) + 9000))) != []


def test_what_a_child_read_as_it_started_is_no_work_of_now() -> None:
    assert alarms(diagnose(copying(0, 200 << 20, *[200 << 20] * 6, every=2.0))) != []


def test_of_a_child_that_was_looked_at_once_nothing_is_told() -> None:
    """It was started a moment ago: there is no time in which it read so much."""
    job = copying(None, None, None, None, 3 << 20)
    assert motion(job.ranks[0]).helpers_bytes is None


@pytest.mark.parametrize(("state", "rests", "stuck"), [("D", 8, False), ("D", 17, True), ("S", 8, True)])
def test_who_copies_much_in_one_call_is_in_state_d_meanwhile(state: str, rests: int, stuck: bool) -> None:
    job = copying(0, 16 << 20, *[16 << 20] * rests, every=2.0)
    child = Helper(71, job.ranks[0].process.pid, "helper", state, "folio_wait_bit_common", 0.0, 9 << 20, "cp a b")
    ranks = (replace(job.ranks[0], helpers=(child,)), *job.ranks[1:])
    assert bool(alarms(diagnose(replace(job, ranks=ranks)))) is stuck


@pytest.mark.parametrize(("state", "severity"), [("R", "info"), ("S", "critical")])
def test_a_child_that_looks_meet_ready_to_run_works_though_it_is_given_no_cpu(state: str, severity: str) -> None:
    """A pool's workers on a node with ten times more to do than processors, of which no CPU time was told yet."""
    job = waiting_for_a_child(0.8, 0.8, 0.8, 0.8, 0.8, every=2.0, span=9.0)
    own = job.ranks[0].process.pid
    stacks, nodes = [], []
    for node, dump in zip(job.stack_nodes, job.stacks, strict=True):
        stacks.append(dump)
        nodes.append(node)
        if dump.pid == own:
            stacks.append(dump._replace(pid=71, rank_pid=own, at=dump.at + 0.1, state=state, syscall=""))
            nodes.append(node)
    assert first(diagnose(replace(job, stacks=tuple(stacks), stack_nodes=tuple(nodes)))).severity == severity
