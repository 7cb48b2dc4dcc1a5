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

TABLES = {"hanging": HANGING, "pausing": PAUSING, "moving": MOVING, "below_python": DEVICE}
"""Jobs by the fixture that has the answers about them."""


@pytest.fixture(scope="module")
def hanging(nursery: Nurseries) -> Batches:
    return Batches(nursery, HANGING, at_once=2)


@pytest.fixture(scope="module")
def pausing(nursery: Nurseries) -> Batches:
    """Each is watched for as long as triage watches at most: all at once, they leave the processors alone."""
    return Batches(nursery, PAUSING, at_once=len(PAUSING))


@pytest.fixture(scope="module")
def moving(nursery: Nurseries) -> Batches:
    return Batches(nursery, MOVING, at_once=2)


@pytest.fixture(scope="module")
def below_python(nursery: Nurseries) -> Iterator[Batches]:
    if not compiler():
        pytest.skip("a C compiler makes what the ranks wait in")
    for job in nursery.jobs:
        job.end()  # each of these jobs takes all processors that it can get
    with devices_of(nursery.cluster) as devices:
        yield Batches(nursery, DEVICE, at_once=1, devices=devices)


@pytest.mark.usefixtures("nursery")
@pytest.mark.parametrize(
    ("table", "name"),
    [
        pytest.param(table, name, id=name, marks=[pytest.mark.slow] if job.slow else [])
        for table, jobs in TABLES.items()
        for name, job in jobs.items()
    ],
)
def test_the_answer_about_a_job(request: pytest.FixtureRequest, table: str, name: str) -> None:
    answers: Batches = request.getfixturevalue(table)
    answer = answers[name]
    assert not answers.rows[name].wrong(answer), (answer.took, answer.data)
