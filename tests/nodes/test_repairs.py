"""Repairs over SSH on a real node: the orphan ends, the stopped rank goes on, and nobody else feels anything."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support import orphans
from tests.support.cluster import Cluster
from tests.support.cluster_node import Node

pytestmark = pytest.mark.nodes

HANGTOP = (sys.executable, "-c", "from hangtop.cli.main import main; main()")
OLD = {
    "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "old",
}  # fmt: skip


@contextmanager
def orphan(node: Node) -> Iterator[list[int]]:
    """An orphan on a node that holds a port; gives its pid there and the port."""
    process = subprocess.Popen(
        node.enter(orphans.words(OLD, orphans.LISTENING)), env=node.environment(), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield orphans.said(process)
    finally:
        process.kill()
        process.communicate()


def start_rank(node: Node, rank: int) -> int:
    """A rank that waits; its pid on the node. It ends with the node."""
    own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
           "MASTER_ADDR": node.address, "MASTER_PORT": "29501"}  # fmt: skip
    process = node.spawn([sys.executable, "-c", orphans.SLEEP], env=own, stdout=subprocess.PIPE)
    assert process.stdout is not None
    return int(process.stdout.readline())


def repair(cluster: Cluster, *words: str) -> tuple[int, dict[str, Any]]:
    command = [*HANGTOP, "repair", *words, "-F", str(cluster.ssh_config), "--batch", "--json", *cluster.names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, stdin=subprocess.DEVNULL)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def states(node: Node) -> dict[int, str]:
    return {process.pid: process.state for process in node.processes()}


def test_orphans_end_and_stopped_ranks_go_on() -> None:
    with Cluster(1) as cluster, orphan(cluster.nodes[0]) as (pid, _):
        node = cluster.nodes[0]
        well, stopped = (start_rank(node, rank) for rank in range(2))
        node.run(["kill", "-STOP", str(stopped)])

        code, found = repair(cluster, "list")
        assert code == 1
        assert [one["pid"] for one in found["orphans"]] == [pid]
        assert [(one["pid"], one["rank"], one["state"]) for one in found["stopped"]] == [(stopped, 1, "T")]
        assert states(node)[stopped] == "T", "listing changes nothing"

        code, found = repair(cluster, "orphans", "--yes")
        assert (code, [(one["pid"], one["outcome"]) for one in found["results"]]) == (0, [(pid, "terminated")])
        code, found = repair(cluster, "continue", "--yes")
        assert (code, [(one["pid"], one["outcome"]) for one in found["results"]]) == (0, [(stopped, "continued")])

        left = states(node)
        assert pid not in left
        assert (left[stopped], left[well]) == ("S", "S")
        assert repair(cluster, "list")[0] == 0
