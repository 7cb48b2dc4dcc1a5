"""Every way to hang, and healthy twins, on real ranks: kind and culprit are right, and nobody else is accused.

``hangtop triage --json`` is asked about each row of :mod:`tests.support.real_jobs`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.devices import devices_of
from tests.support.faulty import Nurseries
from tests.support.real_jobs import DEVICE, HANGING, MOVING, PAUSING, Batches
from tests.support.simulated_nccl.library import compiler

pytestmark = [pytest.mark.nodes, pytest.mark.torch]

TABLES = ((HANGING, 2), (PAUSING, len(PAUSING)), (MOVING, 2), (DEVICE, 1))
"""Jobs, and how many are asked about at once. Triage watches a pausing job for as long as it watches at most: all at
once, these jobs leave the processors alone."""


@pytest.fixture(scope="module")
def answers(nursery: Nurseries, request: pytest.FixtureRequest) -> Iterator[Batches]:
    jobs, at_once = request.param
    if jobs is not DEVICE:
        yield Batches(nursery, jobs, at_once=at_once)
        return
    if not compiler():
        pytest.skip("a C compiler makes what the ranks wait in")
    for job in nursery.jobs:
        job.end()  # each job of DEVICE takes all processors that it can get
    with devices_of(nursery.cluster) as devices:
        yield Batches(nursery, DEVICE, at_once=at_once, devices=devices)


@pytest.mark.parametrize(
    ("answers", "name"),
    [
        pytest.param(table, name, id=name, marks=[pytest.mark.slow] if job.slow else [])
        for table in TABLES
        for name, job in table[0].items()
    ],
    indirect=["answers"],
    scope="module",
)
def test_the_answer_about_a_job(answers: Batches, name: str) -> None:
    answer = answers[name]
    assert not answers.rows[name].wrong(answer), (answer.took, answer.data)
