"""``hangtop triage`` on real nodes: who holds the job up, in which frame, in how many seconds, with which exit code."""

from __future__ import annotations

import pytest

from tests.support.faulty import Nurseries, Triage

pytestmark = [pytest.mark.nodes, pytest.mark.torch]


def test_a_node_that_is_not_there_is_lost_and_the_others_are_judged(nursery: Nurseries) -> None:
    for job in nursery.jobs:
        job.end()  # it is the only job of the nodes: none is chosen
    job = nursery.launch("lm.py", "blocked", env={"HX_FAULT": "reader", "HX_WHO": "2"})
    job.wait_for("struck", 2)
    config = nursery.cluster.root / "with_dead"
    config.write_text(f"Host dead\n  HostName 127.0.0.1\n  Port 1\n{nursery.cluster.ssh_config.read_text()}")
    answer = Triage(nursery.cluster, "-F", str(config), "dead").answer()
    job.end()
    assert (answer.status, answer.errors) == (1, "")
    assert answer.data["job"]["world_size"] == answer.data["job"]["ranks_seen"] == 4
    assert sorted((node["name"], node["state"], node["ranks"]) for node in answer.data["job"]["nodes"]) == [
        ("dead", "lost", []), ("node1", "live", [0, 1]), ("node2", "live", [2, 3]),
    ]  # fmt: skip
    assert answer.named() == ("hung", "rank_stuck_in_data", [2])
    assert answer.alarms == ["rank_stuck_in_data", "node_unreachable"]
    assert any("token_pages" in piece["text"] for piece in answer.findings[0]["evidence"])
    assert any(unknown["nodes"] == ["dead"] for unknown in answer.data["unknown"])
