"""Every way to hang, on real ranks and through ``hangtop triage --json``: kind and culprit right, and nobody else's.

The programs are those of tests/support/faulty_jobs; several jobs run side by side on the same nodes.
"""

from __future__ import annotations

import pytest

from tests.support.batches import Batches
from tests.support.faulty import Nurseries
from tests.support.hung_cases import CASES

pytestmark = [pytest.mark.nodes, pytest.mark.torch]


@pytest.fixture(scope="module")
def answers(nursery: Nurseries) -> Batches:
    """The answer about every case."""
    return Batches(
        nursery.cluster,
        list(CASES),
        lambda name: CASES[name].launch(nursery, name),
        lambda name, job: CASES[name].strike(job),
        at_once=5,
    )


@pytest.mark.parametrize("name", CASES)
def test_kind_and_culprit(answers: Batches, name: str) -> None:
    CASES[name].check(answers[name])
