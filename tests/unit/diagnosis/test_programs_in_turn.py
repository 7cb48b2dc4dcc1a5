"""A rank that runs programs, one after another or under a limit of time, while the others wait for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.samples.ranks import Helper
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, NOW, Sketch, first
from tests.support.stacks import STDLIB

RUNS = [f"Popen.communicate {STDLIB}/subprocess.py:1209", "run_candidate score.py:82", "main score.py:9"]


def running(
    *, seen: int, now: int, role: str = "helper", ended: bool = False, limit: str = "", asleep: float = 12.0
) -> Finding:
    """What is told first: at an earlier look the rank ran process ``seen``, by now it runs ``now``."""
    sketch = Sketch(watched=30.0, span=12.0, stood_still=12.0, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(RUNS, syscall="poll", arguments={"timeout": limit} if limit else {}).helpers(
        *([Helper(seen, 1002, role, "Z", "", 0.1, 1, "python -c")] if ended else []),
        Helper(now, 1002, role, "S", "", 0.1, 1, "python -c"),
    )
    job = sketch.job()
    since = NOW - asleep
    ranks = tuple(
        replace(rank, looks=tuple(look._replace(value=look.value._replace(idle_since=since)) for look in rank.looks))
        for rank in job.ranks
    )
    own = [dump for dump in job.stacks if dump.pid == 1002][2]
    child = own._replace(pid=seen, threads=[], at=own.at + 0.1)
    return first(
        diagnose(replace(job, ranks=ranks, stacks=(*job.stacks, child), stack_nodes=(*job.stack_nodes, sketch.home(2))))
    )


def test_one_after_another_is_work() -> None:
    found = running(seen=2000, now=2001)
    assert (found.kind, found.ranks) == ("waiting", (2,))


@pytest.mark.parametrize(
    ("seen", "role", "ended"), [(2001, "helper", False), (2000, "data_worker", False), (2000, "helper", True)]
)
def test_one_that_stays_or_a_worker_or_one_of_two_that_ended_is_none(seen: int, role: str, ended: bool) -> None:
    found = running(seen=seen, now=2001, role=role, ended=ended)
    assert (found.kind, found.ranks) == ("rank_stuck_in_code", (2,))


@pytest.mark.parametrize(
    ("limit", "asleep", "kind"),
    [
        ("30", 12.0, "waiting"),
        ("5.0", 3.0, "waiting"),
        ("5.0", 12.0, "rank_stuck_in_code"),
        ("", 3.0, "rank_stuck_in_code"),
    ],
)
def test_a_limit_of_time_is_waited_for_from_when_the_present_one_was_started(
    limit: str, asleep: float, kind: str
) -> None:
    found = running(seen=2001, now=2001, limit=limit, asleep=asleep)
    assert (found.kind, found.ranks) == (kind, (2,))


@pytest.mark.parametrize(
    ("ago", "kind"),
    [
        (4.0, "waiting"),
        (10.5, "rank_stuck_in_code"),
        (16.0, "rank_stuck_in_code"),
        (None, "rank_stuck_in_code"),
    ],
)
def test_a_shell_of_which_a_program_ended_meanwhile_runs_further_ones(ago: float | None, kind: str) -> None:
    """Of those that it began at once, as the others came, one that ends first says nothing of the last."""
    sketch = Sketch(watched=30.0, span=12.0, stood_still=12.0, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(RUNS, syscall="wait4", waiting_on="process 2000").helpers(
        Helper(2000, 1002, "helper", "S", "", 0.1, 1, "bash loop.sh")
    )
    job = sketch.job()
    ended = None if ago is None else NOW - ago
    found = first(diagnose(replace(job, ranks=tuple(replace(rank, program_ended_at=ended) for rank in job.ranks))))
    assert (found.kind, found.ranks) == (kind, (2,))


JOBLIB = ["Parallel._retrieve /env/lib/python3.11/site-packages/joblib/parallel.py:1822", "search probe.py:62",
          "main probe.py:9"]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "held", "kind"),
    [("R", 25.0, "waiting"), ("S", 25.0, "rank_stuck_in_code"), ("R", 70.0, "rank_stuck_in_code")],
)
def test_who_looks_again_and_again_while_its_processes_want_a_cpu_waits_for_these(
    state: str, held: float, kind: str
) -> None:
    """A search of scikit-learn's over two processes, on a full node, was told as stuck, likely."""
    sketch = Sketch(watched=90.0, span=held, stood_still=held, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(JOBLIB, syscall="clock_nanosleep", waiting_on="its clock for 0 s more").pulse(
        cores=0.004, switches=60.0
    ).helpers(Helper(2000, 1002, "helper", state, "", 0.1, 1, "python -m joblib"))
    found = first(diagnose(sketch.job()))
    assert (found.kind, found.ranks) == (kind, (2,))
