"""A rank that computes for long in code of its own while the others wait: scoring in numpy, or a loop without end."""

from __future__ import annotations

import pytest

from tests.support.jobs import ALL_REDUCE, Sketch, first

SCORES = ["fold calc.py:40", "main train.py:9"]
IN_NUMPY = "argsort /env/site-packages/numpy/core/fromnumeric.py:1133"
LINALG = "svd /env/site-packages/numpy/linalg/linalg.py:1681"


@pytest.mark.parametrize(
    ("looks", "severity"),
    [
        (([IN_NUMPY, *SCORES], SCORES, [LINALG, *SCORES], ["fold calc.py:41", *SCORES[1:]]), "info"),
        (([IN_NUMPY, *SCORES], SCORES, ["fold calc.py:41", *SCORES[1:]], SCORES), "critical"),
        ((SCORES, ["fold calc.py:41", *SCORES[1:]], SCORES, SCORES), "critical"),
        (([IN_NUMPY, *SCORES],), "critical"),
    ],
    ids=["by libraries", "seldom by one", "a loop", "at one place"],
)
def test_who_computes_by_libraries_is_given_a_minute(looks: tuple[list[str], ...], severity: str) -> None:
    job = Sketch(watched=40.0, span=25.0, patience=10.0, stood_still=25.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(0).at(*looks, state="R", syscall="running").pulse(cores=0.9)
    found = first(job.verdict())
    assert (found.severity, found.ranks) == (severity, (0,))
    job.span = job.stood_still = job.watched = 70.0
    assert first(job.verdict()).severity == "critical"
