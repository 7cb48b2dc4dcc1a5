"""Repairs over SSH on a real node: the orphan ends, the stopped rank goes on, and nobody else feels anything."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.cluster_node import Node

pytestmark = pytest.mark.nodes

HANGTOP = (sys.executable, "-c", "from hangtop.cli.main import main; main()")
LOCAL = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
OLD = {**LOCAL, "RANK": "0", "LOCAL_RANK": "0", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "old"}
SLEEP = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
REAPER = """\
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.prctl(36, 1, 0, 0, 0)
libc.prctl(15, b"systemd", 0, 0, 0)
if os.fork() == 0:
    if os.fork():
        os._exit(0)
    os.setsid()
    os.execvp("env", ["env", *sys.argv[1:]])
while True:
    os.wait()
"""
"""A child subreaper (prctl(2)) with systemd's name: it adopts a process whose starter is gone."""


@contextmanager
def orphan(node: Node) -> Iterator[int]:
    """A process on a node as an earlier run leaves them; gives its pid there."""
    old = [f"{name}={value}" for name, value in OLD.items()]
    words = [sys.executable, "-c", REAPER, *old, sys.executable, "-c", SLEEP, "train.py"]
    process = subprocess.Popen(node.enter(words), env=node.environment(), stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def start_rank(node: Node, rank: int) -> int:
    """A rank that waits; its pid on the node. It ends with the node."""
    own = {**LOCAL, "RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_ADDR": node.address, "MASTER_PORT": "29501"}
    process = node.spawn([sys.executable, "-c", SLEEP], env=own, stdout=subprocess.PIPE)
    assert process.stdout is not None
    return int(process.stdout.readline())


def run(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*HANGTOP, "repair", *words, "-F", str(cluster.ssh_config), "--batch", "--json", *cluster.names]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, stdin=subprocess.DEVNULL)


def repair(cluster: Cluster, *words: str) -> tuple[int, dict[str, Any]]:
    done = run(cluster, *words)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def states(node: Node) -> dict[int, str]:
    return {process.pid: process.state for process in node.processes()}


def test_orphans_end_and_stopped_ranks_go_on() -> None:
    with Cluster(1) as cluster, orphan(cluster.nodes[0]) as pid:
        node = cluster.nodes[0]
        well, stopped = (start_rank(node, rank) for rank in range(2))
        node.run(["kill", "-STOP", str(stopped)])

        code, found = repair(cluster, "list")
        assert code == 1
        assert [one["pid"] for one in found["orphans"]] == [pid]
        assert [(one["pid"], one["rank"]) for one in found["stopped"]] == [(stopped, 1)]
        assert "state T" in found["stopped"][0]["text"]
        assert states(node)[stopped] == "T", "listing changes nothing"

        refused = run(cluster, "orphans")
        assert refused.returncode == 2
        assert "There is no terminal to ask on: use --yes" in refused.stderr
        assert f"kill -TERM {pid}; sleep 5; kill -KILL {pid}" in refused.stderr
        assert states(node)[pid] == "S"

        code, found = repair(cluster, "orphans", "--yes")
        assert (code, [(one["pid"], one["outcome"]) for one in found["results"]]) == (0, [(pid, "terminated")])
        code, found = repair(cluster, "continue", "--yes")
        assert (code, [(one["pid"], one["outcome"]) for one in found["results"]]) == (0, [(stopped, "continued")])

        left = states(node)
        assert pid not in left
        assert (left[stopped], left[well]) == ("S", "S")
