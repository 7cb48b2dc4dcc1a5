"""``hangtop witness`` on real ranks: the rungs say why they are missing, and what needs a newer Python says that."""

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
        assert rungs["CUDA's core dump"]["text"] == "it was started without CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1"
        assert rungs["flight recorder"]["state"] == "missing"
        assert rungs["NCCL's RAS"]["text"] == "no NCCL is loaded whose version is known"
        status, out, errors = reached.ask("witness", "python", "--rank", "2", "--yes")
        assert "sys.remote_exec" in errors, "what is done is shown"
        assert "it runs Python 3." in out
        assert "this came with 3.14" in out
        status, _, errors = reached.ask("witness", "cuda", "--rank", "2", "--yes")
        assert status == 1
        assert "hangtop repair launch prints what the next run needs" in errors
        status, _, errors = reached.ask("witness", "diagnose", "--yes")
        assert status == 1
        assert "DIAGNOSTICS came with NCCL 2.31" in errors
        status, _, errors = reached.ask("witness", "python", "--rank", "2")
        assert status == 2, "nobody can be asked here"
        assert "--yes says so" in errors
    finally:
        job.end()
