"""Commands by another way than SSH: the verdict, the stacks and the probe are those that SSH would have given."""

from __future__ import annotations

import pytest

from tests.support.entered import by_nsenter
from tests.support.faulty import Nurseries
from tests.support.reached import Reached

pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]


def test_a_hang_is_found_by_a_command(nursery: Nurseries) -> None:
    job = nursery.launch("lm.py", "by-command", env={"HX_FAULT": "reader", "HX_WHO": "2"})
    try:
        job.wait_for("struck", 2)
        way = ["--via", by_nsenter(nursery.cluster), *nursery.cluster.names]
        Reached(way, job.case, {"XDG_STATE_HOME": str(nursery.cluster.root / "state")}).stuck_rank_is_found(2)
    finally:
        job.end()
