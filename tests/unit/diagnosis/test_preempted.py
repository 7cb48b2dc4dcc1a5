"""A rank that an overloaded node gives hardly any CPU: it is taken off it again and again, as nobody who sleeps is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, Sketch, first

GENERATES = ["generate sample.py:40", "main train.py:9"]


def told(preempted: int, held: float = 9.0, cores: float = 0.02) -> Finding:
    """What is said of rank 2, which two looks met in C code, and which was taken off its CPU so often each second."""
    sketch = Sketch(watched=held, span=held, stood_still=held, patience=4.0)
    sketch.ranks().at(ALL_REDUCE)
    sketch.ranks(2).at(GENERATES, syscall="futex").pulse(cores=cores, switches=5.0)
    job = sketch.job()
    own = job.ranks[2]
    began = own.looks[0].at
    looks = tuple(
        look._replace(value=look.value._replace(involuntary_switches=int(preempted * (look.at - began))))
        for look in own.looks
    )
    return first(diagnose(replace(job, ranks=(*job.ranks[:2], replace(own, looks=looks), *job.ranks[3:]))))


@pytest.mark.parametrize(("preempted", "severity"), [(20, "info"), (0, "critical")])
def test_who_is_taken_off_its_cpu_again_and_again_does_not_sleep(preempted: int, severity: str) -> None:
    """It waits for Python's lock when it is met, and would compute if it were given a CPU; or wants a lock for good."""
    found = told(preempted)
    assert (found.severity, found.ranks) == (severity, (2,))


@pytest.mark.parametrize(("held", "cores"), [(30.0, 0.3), (65.0, 0.02)])
def test_it_is_told_late_as_no_loop_is_with_the_cpu_that_is_left_for_it(held: float, cores: float) -> None:
    """What takes two seconds of a CPU takes a minute of a thirtieth."""
    found = told(20, held, cores)
    assert (found.severity, found.ranks) == ("critical", (2,))
    assert found.certainty != "proven"
    assert told(20, held=30.0).severity == "info"
