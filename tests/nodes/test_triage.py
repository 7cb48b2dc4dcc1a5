"""``hangtop triage`` on real nodes: who holds the job up, in which frame, in how many seconds, with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.faulty import Answer, Nurseries, Triage

pytestmark = [pytest.mark.nodes, pytest.mark.torch]

TRIAGE = [sys.executable, "-c", "from hangtop.cli.main import main; main()", "triage", "--batch"]


@pytest.fixture(scope="module")
def cluster(nursery: Nurseries) -> Cluster:
    return nursery.cluster


@pytest.fixture(scope="module")
def healthy(nursery: Nurseries) -> Iterator[Answer]:
    """The answer about the only job of the nodes, which is well."""
    job = nursery.launch("lm.py", "well")
    job.wait_for("moves")
    yield Triage(nursery.cluster).answer()
    job.end()


def triage(config: str, nodes: Sequence[str]) -> tuple[int, dict[str, Any], str]:
    """Run the command as a script would; its exit code, answer and standard error."""
    done = subprocess.run(
        [*TRIAGE, "--json", "-F", config, *nodes],
        capture_output=True, text=True, timeout=180, check=False, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_healthy_job(healthy: Answer) -> None:
    assert (healthy.status, healthy.verdict, healthy.errors) == (0, "healthy", "")
    assert healthy.data["job"]["world_size"] == healthy.data["job"]["ranks_seen"] == 4
    assert [(n["name"], n["state"], n["ranks"]) for n in healthy.data["job"]["nodes"]] == [
        ("node1", "live", [0, 1]),
        ("node2", "live", [2, 3]),
    ]


def test_a_node_that_is_not_there_is_lost_and_the_others_are_judged(nursery: Nurseries, healthy: Answer) -> None:
    for job in nursery.jobs:
        job.end()
    job = nursery.launch("lm.py", "blocked", env={"HX_FAULT": "reader", "HX_WHO": "2"})
    job.wait_for("struck", 2)
    config = nursery.cluster.root / "with_dead"
    config.write_text(f"Host dead\n  HostName 127.0.0.1\n  Port 1\n{nursery.cluster.ssh_config.read_text()}")
    answer = Triage(nursery.cluster, "-F", str(config), "dead").answer()
    job.end()
    assert (answer.status, answer.errors) == (1, "")
    states = {node["name"]: node["state"] for node in answer.data["job"]["nodes"]}
    assert states == {"node1": "live", "node2": "live", "dead": "lost"}
    assert answer.named() == ("hung", "rank_stuck_in_data", [2])
    assert answer.alarms == ["rank_stuck_in_data"]
    assert any("token_pages" in piece["text"] for piece in answer.findings[0]["evidence"])
    assert any(unknown["nodes"] == ["dead"] for unknown in answer.data["unknown"])


def test_no_node_reachable_is_exit_code_3(cluster: Cluster) -> None:
    config = cluster.root / "only_dead"
    config.write_text("Host dead*\n  HostName 127.0.0.1\n  Port 1\n")
    code, answer, _ = triage(str(config), ["dead[1-2]"])
    assert code == 3
    assert {node["state"] for node in answer["job"]["nodes"]} == {"lost"}


def test_an_unknown_host_key_is_refused_in_batch(cluster: Cluster) -> None:
    config = cluster.root / "unknown_keys"
    config.write_text(cluster.ssh_config.read_text().replace(str(cluster.known_hosts), str(cluster.root / "none")))
    code, answer, _ = triage(str(config), ["node1"])
    assert code == 3
    assert "known_hosts" in answer["job"]["nodes"][0]["why"]
    assert not (cluster.root / "none").exists()
