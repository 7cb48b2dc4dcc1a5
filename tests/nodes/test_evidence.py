"""``hangtop evidence`` on real ranks: each source that is missing says why."""

from __future__ import annotations

import json

import pytest

from tests.support.faulty import Nurseries, by_ssh
from tests.support.reached import Reached

pytestmark = [pytest.mark.nodes, pytest.mark.torch]


def test_sources_of_a_real_job(nursery: Nurseries) -> None:
    job = nursery.launch("lm.py", "rungs")
    way = by_ssh(nursery.cluster)
    reached = Reached(way.words, job.case, way.env)
    try:
        job.wait_for("moves")
        status, out, errors = reached.ask("evidence", "--json")
        assert status == 0, errors
        sources = {source["name"]: source for source in json.loads(out)["sources"]}
        assert sources["flight recorder"]["state"] == "missing"
        assert sources["NCCL's RAS"]["text"] == "no NCCL is loaded whose version is known"
    finally:
        job.end()
