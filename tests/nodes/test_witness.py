"""``hangtop witness`` on real ranks: the rungs say why they are missing, and what cannot be asked says why."""

from __future__ import annotations

import json

import pytest

from tests.support.faulty import Nurseries, by_ssh
from tests.support.reached import Reached

pytestmark = [pytest.mark.nodes, pytest.mark.torch]


def test_rungs_of_a_real_job_and_what_cannot_be_asked(nursery: Nurseries) -> None:
    job = nursery.launch("lm.py", "rungs")
    way = by_ssh(nursery.cluster)
    reached = Reached(way.words, job.case, way.env)
    try:
        job.wait_for("moves")
        status, out, errors = reached.ask("witness", "list", "--json")
        assert status == 0, errors
        rungs = {rung["name"]: rung for rung in json.loads(out)["rungs"]}
        assert rungs["flight recorder"]["state"] == "missing"
        assert rungs["NCCL's RAS"]["text"] == "no NCCL is loaded whose version is known"
        status, _, errors = reached.ask("witness", "diagnose", "--yes")
        assert status == 1
        assert "DIAGNOSTICS came with NCCL 2.31" in errors
        status, _, errors = reached.ask("witness", "status", "--yes")
        assert status == 1
        assert "RAS came with NCCL 2.24" in errors
    finally:
        job.end()
