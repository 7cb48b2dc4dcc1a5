"""Ranks on two real nodes that speak over plain sockets: who waits for whom is told by the connection between them."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.faulty import Triage

pytestmark = pytest.mark.nodes

JOB = Path(__file__).parents[1] / "support" / "plain_jobs" / "sockets.py"


def test_the_rank_on_the_other_node_holds_the_first_one_up() -> None:
    with Cluster(2) as cluster:
        logs = [cluster.shared / f"rank{rank}.log" for rank in (0, 1)]
        for rank, (node, log) in enumerate(zip(cluster.nodes, logs, strict=True)):
            env = {"HX_CASE": "sockets", "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": cluster.nodes[0].address,
                   "MASTER_PORT": "29650"}  # fmt: skip
            with log.open("ab") as file:
                node.spawn([sys.executable, str(JOB)], env=env, stdout=file, stderr=file)
        deadline = time.monotonic() + 60
        while "struck" not in logs[1].read_text():
            assert time.monotonic() < deadline, [log.read_text() for log in logs]
            time.sleep(0.1)
        answer = Triage(cluster, case="sockets").answer()
    assert answer.named() == ("hung", "rank_stuck_in_data", [1])
    assert "fetch_shard (sockets.py:" in answer.findings[0]["summary"]
