"""Jobs whose ranks wait below Python, as over NCCL: every layout and fault, and healthy twins, asked in three ways.

``triage``, the live session and ``replay`` of its recording must say the same: the kind and the culprit of a fault, and
nothing of a healthy job. Most cases are slow: ``pytest --slow`` runs them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.device_cases import CASES
from tests.support.device_jobs import DeviceJobs, line, wrong
from tests.support.faulty import Nurseries
from tests.support.simulated_nccl.library import compiler

pytestmark = [
    pytest.mark.nodes,
    pytest.mark.torch,
    pytest.mark.skipif(not compiler(), reason="a C compiler makes what the ranks wait in"),
]


@pytest.fixture(scope="module")
def jobs(nursery: Nurseries) -> Iterator[DeviceJobs]:
    for job in nursery.jobs:
        job.end()  # each of these jobs takes all processors that it can get
    made = DeviceJobs(nursery)
    yield made
    made.remove()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if case.slow else []) for name, case in CASES.items()]
)
def test_three_ways_one_answer(jobs: DeviceJobs, name: str) -> None:
    case = CASES[name]
    answers = jobs.answers(name)
    said = "\n".join(line(name, way, case, answer) for way, answer in answers.items())
    assert not any(wrong(case, answer) for answer in answers.values()), said
    if not case.healthy:
        assert len({(answer.verdict, answer.findings[0]["kind"]) for answer in answers.values()}) == 1, said
