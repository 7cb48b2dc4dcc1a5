"""Profiler traces that lie on nodes: reduced there over real SSH, together named the late rank, nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.faulty import Nurseries

pytestmark = pytest.mark.nodes

TRACES = Path(__file__).parent.parent / "fixtures" / "traces"
HANGTOP = (sys.executable, "-c", "from hangtop.cli.main import main; main()")


def test_traces_on_two_nodes_name_the_late_rank(nursery: Nurseries) -> None:
    cluster = nursery.cluster
    for rank, node in enumerate(cluster.nodes):
        folder = node.tmp / "traces"
        folder.mkdir(exist_ok=True)
        (folder / f"{rank}.json.gz").write_bytes((TRACES / f"straggler_rank{rank}.json.gz").read_bytes())
    words = [*HANGTOP, "probe", "trace", *cluster.names, "--on-nodes", "/tmp/traces/*"]
    done = subprocess.run(
        [*words, "-F", str(cluster.ssh_config), "--batch", "--json"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert [(rank["rank"], rank["node"]) for rank in answer["ranks"]] == list(enumerate(cluster.names))
    assert answer["findings"][0]["kind"] == "straggler_rank"
    assert answer["findings"][0]["ranks"] == [1]
