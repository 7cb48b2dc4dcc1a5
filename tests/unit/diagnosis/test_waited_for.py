"""Whom the others wait for is told at once; whether that is a fault is told by what moves in the rank's wake set.

Each case is one rank that three others wait for in ``all_reduce``: what it does, what is said after seven seconds, and
after seventy.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from collectors.samples.ranks import Helper, RankPulse
from collectors.samples.stacks import ThreadWait
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import JobMotion
from hangtop.diagnosis.series import Timed, TimedSeries
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, COMPUTING, LOCKED, NOW, READING, Sketch, first, kinds

WHO = 2
CODE = ["tune_kernels job.py:61", "main job.py:9"]
LOCK = ["wait /usr/lib/python3.11/threading.py:331", *LOCKED]
CHILD = ["wait /usr/lib/python3.11/subprocess.py:1264", "build job.py:30", "main job.py:9"]
FILE_LOCK = ["acquire /env/site-packages/filelock/_api.py:300", "build job.py:30", "main job.py:9"]
WAITING = ("waiting", "waiting")


@dataclass(frozen=True)
class Case:
    """What rank 2 does. ``soon`` and ``late``: outcome and kind after 7 and after 70 seconds."""

    soon: tuple[str, str]
    late: tuple[str, str]
    says: str
    stack: list[str] = field(default_factory=lambda: CODE)
    at: dict[str, Any] = field(default_factory=dict)
    moves: dict[str, Any] = field(default_factory=dict)
    helpers: tuple[Helper, ...] = ()
    pulse: dict[str, Any] = field(default_factory=dict)
    """Growth a second of other fields of its pulse."""


def child(state: str = "S", wchan: str = "", role: str = "helper") -> Helper:
    return Helper(2000, 1000 + WHO, role, state, wchan, 1 << 20, "tool --all")


CASES = {
    "computes": Case(WAITING, WAITING, "1.0 core busy", at={"state": "R", "syscall": "running"}, moves={"cores": 1.0}),
    "reads from a slow disk": Case(
        WAITING, WAITING, "reads 19.5 KiB/s", READING, {"syscall": "read", "waiting_on": "/data/a"}, {},
        pulse={"read_bytes": 20_000},
    ),
    "a thread of it uploads": Case(
        WAITING, WAITING, "its connections carry 39.1 KiB/s", LOCK, {"syscall": "futex", "carrying": 40_000.0},
    ),
    "a program of it works": Case(
        WAITING, WAITING, "processes that it started", CHILD, {"syscall": "wait4"}, helpers=(child("R"),),
        pulse={"helpers_cpu": 0.9},
    ),
    "a lock of its own": Case(
        ("hung", "rank_stuck_on_lock"), ("hung", "rank_stuck_on_lock"), "waits for a lock", LOCK, {"syscall": "futex"}
    ),
    "a pipe": Case(
        ("hung", "rank_stuck_in_data"), ("hung", "rank_stuck_in_data"), "blocked on pipe", READING,
        {"syscall": "read", "waiting_on": "pipe"},
    ),
    "native code at a pipe": Case(
        ("hung", "rank_stuck_in_code"), ("hung", "rank_stuck_in_code"), "blocked on pipe",
        at={"syscall": "read", "waiting_on": "pipe"},
    ),
    "native code at a pipe, which keeps the GIL": Case(
        ("hung", "rank_stuck_on_lock"), ("hung", "rank_stuck_on_lock"), "keeps the GIL",
        at={"syscall": "read", "waiting_on": "pipe", "gil": True},
    ),
    "a named pipe": Case(
        ("hung", "rank_stuck_in_data"), ("hung", "rank_stuck_in_data"), "blocked on /run/fifo, to read", READING,
        {"syscall": "openat", "waiting_on": "/run/fifo, to read"}, {"wchan": "wait_for_partner"},
    ),
    "a program of it is stopped": Case(
        ("hung", "rank_stuck_in_code"), ("hung", "rank_stuck_in_code"), "2000 is stopped", CHILD, {"syscall": "wait4"},
        helpers=(child("T"),),
    ),
    "a program of it sleeps": Case(
        WAITING, ("hung", "rank_stuck_in_code"), "process 2000 (tool --all)", CHILD, {"syscall": "wait4"},
        helpers=(child("S", "hrtimer_nanosleep"),),
    ),
    "a remote service": Case(
        WAITING, ("hung", "rank_stuck_in_code"), "tcp 10.0.0.9:443",
        at={"syscall": "recvfrom", "waiting_on": "tcp 10.0.0.9:443"},
    ),
    "storage": Case(
        WAITING, ("hung", "rank_stuck_in_data"), "/data/a", READING, {"syscall": "read", "waiting_on": "/data/a"}
    ),
    "a lock on a file": Case(
        WAITING, ("hung", "rank_stuck_on_lock"), "locked by process 81", CODE,
        {"syscall": "flock", "waiting_on": "/cache/a.lock, locked by process 81 (python3)"},
    ),
    "a lock file": Case(
        WAITING, ("hung", "rank_stuck_on_lock"), "lock file", FILE_LOCK, {"syscall": "clock_nanosleep"}
    ),
    "a sleep": Case(
        WAITING, ("hung", "rank_stuck_in_code"), "time.sleep, 277.8 h left",
        at={"syscall": "clock_nanosleep", "waiting_on": "its clock for 1000000 s more"},
    ),
    "a breakpoint": Case(
        ("hung", "rank_stuck_in_code"), ("hung", "rank_stuck_in_code"), "prompt",
        ["interaction /usr/lib/python3.11/pdb.py:400", *CODE], {"syscall": "read", "waiting_on": "/dev/pts/1"},
    ),
}  # fmt: skip


def verdict_of(case: Case, seconds: float) -> Verdict:
    """What is said of a job that has stood still, and was watched, for so long."""
    job = Sketch(span=seconds, watched=seconds, stood_still=seconds, looks=5)
    job.ranks().at(ALL_REDUCE)
    job.ranks(WHO).at(case.stack, **case.at).pulse(**case.moves).helpers(*case.helpers)
    made = job.job()

    def grown(look: Timed[RankPulse]) -> Timed[RankPulse]:
        after = look.at - job.job().now + seconds
        more: dict[str, Any] = {
            name: type(getattr(look.value, name) or 0)(rate * after) for name, rate in case.pulse.items()
        }
        return look._replace(value=look.value._replace(**more))

    ranks = [one if one.rank != WHO else replace(one, pulses=TimedSeries(map(grown, one.pulses))) for one in made.ranks]
    return diagnose(replace(made, ranks=tuple(ranks)))


@pytest.mark.parametrize("seconds", [7.0, 70.0])
@pytest.mark.parametrize("name", CASES)
def test_the_rank_that_is_waited_for_is_named_at_once_and_accused_by_its_wake_set(name: str, seconds: float) -> None:
    case = CASES[name]
    verdict = verdict_of(case, seconds)
    found = first(verdict)
    assert (verdict.outcome, found.kind) == (case.soon if seconds < 60 else case.late), verdict.summary
    assert found.ranks == (WHO,)
    assert case.says in found.summary


@pytest.mark.parametrize(
    ("name", "certainty"),
    [
        ("computes", "proven"),
        ("native code at a pipe", "proven"),
        ("a program of it works", "proven"),
        ("a lock of its own", "likely"),
        ("a lock file", "likely"),
    ],
)
def test_the_kernel_is_a_second_source_where_it_names_what_the_rank_does_and_not_where_it_only_sleeps(
    name: str, certainty: str
) -> None:
    assert first(verdict_of(CASES[name], 7.0)).certainty == certainty


FETCHES = ThreadWait("fetcher", "recvfrom", "tcp 10.0.0.9:443")
NAPS = ThreadWait("pt_nccl_watchdg", "clock_nanosleep", "")
PIPES = ThreadWait("uploader", "write", "pipe")


@pytest.mark.parametrize(
    ("own", "others", "soon"),
    [
        ((FETCHES,), (), "waiting"),
        ((FETCHES,), (FETCHES,), "hung"),
        ((NAPS,), (), "hung"),
        ((PIPES,), (), "hung"),
        ((), (), "hung"),
    ],
    ids=[
        "its thread alone asks a service",
        "so do those of the others",
        "a watchdog naps",
        "its thread is at a pipe",
        "no thread asks anything",
    ],
)
def test_a_native_thread_that_asks_a_service_is_no_lock_of_the_main_one(
    own: tuple[ThreadWait, ...], others: tuple[ThreadWait, ...], soon: str
) -> None:
    for seconds, outcome in ((7.0, soon), (70.0, "hung")):
        job = Sketch(span=seconds, watched=seconds, stood_still=seconds, looks=5)
        job.ranks().at(ALL_REDUCE)
        job.ranks(WHO).at(LOCK, syscall="futex")
        made = job.job()
        dumps = [dump._replace(beside=list(own if dump.rank_pid == 1000 + WHO else others)) for dump in made.stacks]
        verdict = diagnose(replace(made, stacks=tuple(dumps)))
        assert (verdict.outcome, first(verdict).ranks) == (outcome, (WHO,)), verdict.summary
        assert ("its thread fetcher is in recvfrom on tcp 10.0.0.9:443" in verdict.summary) is (soon == "waiting")


def test_processes_that_may_not_have_been_looked_at_yet_are_not_missed() -> None:
    """Nor is the rank accused: they may compute for it."""
    take = ["get /usr/lib/python3.11/multiprocessing/queues.py:103", "take_next results.py:20", "main run.py:9"]
    job = Sketch()
    job.ranks().at(ALL_REDUCE)
    job.ranks(WHO).at(take, syscall="read", waiting_on="pipe")
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).ranks) == ("waiting", (WHO,))


@pytest.mark.parametrize(
    ("others", "answers", "outcome"), [(5000.0, False, "hung"), (0.0, True, "hung"), (0.0, False, "waiting")]
)
def test_dumps_that_were_asked_for_are_no_work_of_the_rank_that_is_waited_for(
    others: float, outcome: str, *, answers: bool
) -> None:
    """All ranks write their recorder's dump, the one that is blocked on a pipe too, and perhaps before the others."""
    job = Sketch(span=20.0, watched=20.0, stood_still=20.0)
    job.ranks().at(ALL_REDUCE).pulse(written=others)
    job.ranks(WHO).at(READING, syscall="read", waiting_on="pipe").pulse(written=5000.0)
    made = job.job()
    made.ranks[WHO].answers_until = NOW if answers else 0.0
    verdict = diagnose(made)
    assert (verdict.outcome, first(verdict).ranks) == (outcome, (WHO,))


@pytest.mark.parametrize(
    ("master_port", "waiting_on", "outcome"),
    [(29500, "tcp 10.0.0.1:29500", "hung"), (29500, "tcp 10.0.0.1:443", "waiting"), (None, "", "waiting")],
    ids=["the job's store", "another service", "no port of either is known"],
)
@pytest.mark.parametrize("spin", [False, True])
def test_a_rank_that_polls_its_connection_to_the_store_waits_for_other_ranks(
    master_port: int | None, waiting_on: str, outcome: str, *, spin: bool
) -> None:
    """``store.wait`` for a key that nobody sets, while the others are in a collective or wait for their GPUs."""
    job = Sketch(span=7.0, watched=7.0, stood_still=7.0)
    others = ["synchronize /env/site-packages/torch/cuda/__init__.py:985", "iterate job.py:48", "main job.py:66"]
    job.ranks().at(others if spin else ALL_REDUCE, state="R" if spin else "S").pulse(cores=float(spin))
    job.ranks(WHO).at(["hand_in job.py:58", "main job.py:69"], syscall="poll", waiting_on=waiting_on)
    job.ranks(WHO).pulse(cores=0.0).process(master_port=master_port)
    job.motion = JobMotion(False, last_step=40, last_step_at=NOW - 9.0)
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).ranks) == (outcome, (WHO,)), verdict.summary
    assert "init_hang" not in kinds(verdict), "it has trained"


# --- ranks that the kernel does not let run -----------------------------------------------------------------------


def test_stopped_by_a_debugger() -> None:
    job = Sketch()
    job.span = job.watched = 12.0
    job.ranks(0, 1, 2).at(ALL_REDUCE)
    job.ranks(3).at(COMPUTING, state="t")
    assert "a debugger traces it" in first(job.verdict()).summary
    job.ranks(3).at(COMPUTING, state="t", waiting_on="gdb (pid 4711)")
    found = first(job.verdict())
    assert "gdb (pid 4711) traces it" in found.summary
    assert found.advice.startswith("Detach the tracer")


@pytest.mark.parametrize(("state", "wchan"), [("D", "__refrigerator"), ("S", "do_freezer_trap.isra.0")])
def test_frozen_by_a_control_group(state: str, wchan: str) -> None:
    """By version 1, and by version 2, of which its state tells nothing: the storage is not to blame, nor its code."""
    job = Sketch()
    job.ranks(0, 1, 2).at(ALL_REDUCE)
    job.ranks(3).at(READING, state=state).pulse(wchan=wchan)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_stopped", (3,))
    assert "is frozen and holds up 3 others: by its control group" in found.summary
    assert "/proc/1003/cgroup" in found.advice
    assert not found.next, "no signal thaws it"


@pytest.mark.parametrize(
    ("wchan", "soon"), [("folio_wait_bit_common", "waiting"), ("request_wait_answer", "hung")], ids=["a disk", "FUSE"]
)
def test_a_read_that_does_not_return_is_told_at_once_beside_ranks_that_spin(wchan: str, soon: str) -> None:
    for seconds, outcome in ((7.0, soon), (70.0, "hung")):
        job = Sketch(span=seconds, watched=seconds, stood_still=seconds, looks=5)
        job.ranks().at(ALL_REDUCE, state="R").pulse(cores=1.0)
        job.ranks(2).at(READING, state="D").pulse(wchan=wchan)
        verdict = job.verdict()
        assert (verdict.outcome, first(verdict).ranks) == (outcome, (2,)), verdict.summary
