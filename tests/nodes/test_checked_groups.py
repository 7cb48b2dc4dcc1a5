"""``hangtop check --rank`` on two real nodes: a group whose ranks lie on both is asked, and nobody else is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "support" / "inside_groups_job.py"
CHECK = [sys.executable, "-c", "from hangtop.cli.main import main; main()", "check"]
pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes with two ranks each: the data parallel groups 0,2 and 1,3 reach over both; rank 2 has another bit."""
    with Cluster(2) as made:
        ranks = made.launch(
            SCRIPT.read_text(), ranks_per_node=2, arguments=["flip"], env={"PYTHONPATH": str(ROOT)}, port=29517
        )
        ranks.wait_for("up")
        yield made
        ranks.kill()


def ask(cluster: Cluster, *words: str) -> tuple[int, dict[str, Any], str]:
    command = [*CHECK, *words, "--yes", "--json", "-F", str(cluster.ssh_config), "--python", sys.executable]
    done = subprocess.run(
        [*command, *(node.name for node in cluster.nodes)],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def test_a_group_on_two_nodes_is_asked_and_its_twin_is_silent(cluster: Cluster) -> None:
    code, answer, said = ask(cluster, "same", "--rank", "0,2")
    assert code == 1, said
    assert (answer["group"], answer["ranks"]) == ([0, 2], [0, 2])
    assert [finding["summary"] for finding in answer["findings"]] == ["weight differs on rank 2 from that of rank 0"]
    code, answer, said = ask(cluster, "same", "--rank", "1,3")
    assert (code, answer["ok"], answer["findings"]) == (0, True, []), said
    code, answer, said = ask(cluster, "same", "--rank", "2,3")
    assert code == 1, said
    assert "no replicas of one another" in answer["findings"][0]["summary"]
    code, answer, said = ask(cluster, "barrier", "--rank", "2,3")
    assert (code, answer["summaries"]) == (0, ["2 ranks came"]), said
