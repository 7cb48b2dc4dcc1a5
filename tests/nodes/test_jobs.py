"""Every way to hang, and healthy twins, on real ranks: kind and culprit are right, and nobody else is accused.

``hangtop triage --json`` is asked about each row of :mod:`tests.support.real_jobs`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.devices import devices_of
from tests.support.faulty import Nurseries
from tests.support.real_jobs import DEVICE, HANGING, MOVING, Batches
from tests.support.simulated_nccl.library import compiler

pytestmark = [pytest.mark.nodes, pytest.mark.torch]


@pytest.fixture(scope="module")
def hanging(nursery: Nurseries) -> Batches:
    return Batches(nursery, HANGING, at_once=5)


@pytest.mark.parametrize("name", HANGING)
def test_a_hung_job(hanging: Batches, name: str) -> None:
    answer = hanging[name]
    assert not HANGING[name].wrong(answer), (answer.took, answer.data)


@pytest.fixture(scope="module")
def moving(nursery: Nurseries) -> Batches:
    return Batches(nursery, MOVING, at_once=2)


@pytest.mark.parametrize("name", MOVING)
def test_a_job_that_goes_on(moving: Batches, name: str) -> None:
    answer = moving[name]
    assert not MOVING[name].wrong(answer), (answer.took, answer.data)


@pytest.fixture(scope="module")
def below_python(nursery: Nurseries) -> Iterator[Batches]:
    for job in nursery.jobs:
        job.end()  # each of these jobs takes all processors that it can get
    with devices_of(nursery.cluster) as devices:
        yield Batches(nursery, DEVICE, at_once=1, devices=devices)


@pytest.mark.skipif(not compiler(), reason="a C compiler makes what the ranks wait in")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if job.slow else []) for name, job in DEVICE.items()]
)
def test_below_python(below_python: Batches, name: str) -> None:
    answer = below_python[name]
    assert not DEVICE[name].wrong(answer), (answer.took, answer.data)
