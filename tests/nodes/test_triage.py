"""``hangtop triage`` on real nodes: who holds the job up, in which frame, in how many seconds, with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.cluster_ranks import Ranks

pytestmark = [pytest.mark.nodes, pytest.mark.torch]

TRIAGE = [sys.executable, "-c", "from hangtop.cli.main import main; main()", "triage", "--batch"]

JOB = """
import os, sys, time, torch, torch.distributed as dist

class Corpus:
    def __init__(self, bad):
        self.bad = bad
    def fetch_tokens(self, step):
        if self.bad and os.path.exists(sys.argv[1]):
            ours, theirs = os.pipe()
            os.read(ours, 1)
        return torch.randn(32, 64)

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
corpus = Corpus(rank == 2)
for step in range(100000):
    batch = corpus.fetch_tokens(step)
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.05)
    if step == 5:
        print("running", flush=True)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as made:
        yield made


@pytest.fixture(scope="module")
def fault(cluster: Cluster) -> Path:
    """The reader of rank 2 blocks once this file is there."""
    return cluster.shared / "fault"


@pytest.fixture(scope="module")
def job(cluster: Cluster, fault: Path) -> Ranks:
    """Four ranks in a DDP loop, two a node."""
    ranks = cluster.launch(JOB, ranks_per_node=2, arguments=[str(fault)])
    ranks.wait_for("running")
    return ranks


def triage(cluster: Cluster, *words: str, nodes: Sequence[str] = ("node[1-2]",)) -> tuple[int, dict[str, Any], str]:
    """Run the command as a script would; its exit code, answer and standard error."""
    done = subprocess.run(
        [*TRIAGE, "--json", "-F", str(cluster.ssh_config), *words, *nodes],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_healthy_job_then_one_with_a_blocked_reader(cluster: Cluster, job: Ranks, fault: Path) -> None:
    code, answer, errors = triage(cluster)
    assert (code, answer["verdict"], errors) == (0, "healthy", "")
    assert answer["job"]["world_size"] == answer["job"]["ranks_seen"] == 4
    assert [(n["name"], n["state"], n["ranks"]) for n in answer["job"]["nodes"]] == [
        ("node1", "live", [0, 1]),
        ("node2", "live", [2, 3]),
    ]
    fault.touch()
    time.sleep(1.5)
    began = time.monotonic()
    code, answer, errors = triage(cluster)
    took = time.monotonic() - began
    assert (code, answer["verdict"], errors) == (1, "hung", "")
    first = answer["findings"][0]
    assert (first["kind"], first["ranks"], first["nodes"]) == ("rank_stuck_in_data", [2], ["node2"])
    assert "fetch_tokens" in answer["summary"]
    assert any("fetch_tokens" in piece["text"] for piece in first["evidence"])
    assert took < 15
    assert [process for node in cluster.nodes for process in node.matching("-I -S -B -u -c exec")] == []


def test_a_node_that_is_not_there_is_lost_and_the_others_are_judged(cluster: Cluster, job: Ranks, fault: Path) -> None:
    fault.touch()
    config = cluster.root / "with_dead"
    config.write_text(f"Host dead\n  HostName 127.0.0.1\n  Port 1\n{cluster.ssh_config.read_text()}")
    code, answer, _ = triage(cluster, "-F", str(config), nodes=["node[1-2]", "dead"])
    assert code == 1
    states = {node["name"]: node["state"] for node in answer["job"]["nodes"]}
    assert states == {"node1": "live", "node2": "live", "dead": "lost"}
    assert answer["findings"][0]["kind"] == "rank_stuck_in_data"
    assert any(unknown["nodes"] == ["dead"] for unknown in answer["unknown"])


def test_no_node_reachable_is_exit_code_3(cluster: Cluster) -> None:
    config = cluster.root / "only_dead"
    config.write_text("Host dead*\n  HostName 127.0.0.1\n  Port 1\n")
    code, answer, _ = triage(cluster, "-F", str(config), nodes=["dead[1-2]"])
    assert code == 3
    assert {node["state"] for node in answer["job"]["nodes"]} == {"lost"}


def test_an_unknown_host_key_is_refused_in_batch(cluster: Cluster) -> None:
    config = cluster.root / "unknown_keys"
    config.write_text(cluster.ssh_config.read_text().replace(str(cluster.known_hosts), str(cluster.root / "none")))
    code, answer, _ = triage(cluster, "-F", str(config), nodes=["node1"])
    assert code == 3
    assert "known_hosts" in answer["job"]["nodes"][0]["why"]
    assert not (cluster.root / "none").exists()
