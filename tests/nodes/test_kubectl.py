"""Nodes that are pods, by a kubectl that goes straight into them: a hang is found, and nothing is left behind."""

from __future__ import annotations

import os
import shlex
import subprocess
import time

import pytest

from tests.support.cluster import Cluster
from tests.support.faulty import Nurseries
from tests.support.reached import HANGTOP, Reached

pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]

WAY = ["--via", "kubectl", "-n", "lab", "-l", "app=train"]
KUBECTL = """\
#!/bin/sh
[ "$1" = --namespace=lab ] || exit 9
shift
case "$*" in
  "get pods --output=name --selector=app=train") printf 'pod/train-0\\npod/train-1\\n';;
{pods}
  *) echo "error: $*" >&2; exit 1;;
esac
"""
"""What runs in a pod goes on when kubectl has gone, as with the real one."""


@pytest.fixture
def env(nursery: Nurseries) -> dict[str, str]:
    """What hangtop finds: this kubectl, whose pods ``train-0`` … are the nodes."""
    cluster = nursery.cluster
    pods = []
    for index, node in enumerate(cluster.nodes):
        words = ["nsenter", "-t", str(node.init_pid), "-m", "-u", "-i", "-n", "-p", "--", "env", f"PATH={node.path}"]
        pods.append(f'  "exec -i train-{index} -- sh") exec {shlex.join(words)} sh;;')
    folder = cluster.root / "kubectl"
    folder.mkdir(exist_ok=True)
    (folder / "kubectl").write_text(KUBECTL.format(pods="\n".join(pods)))
    (folder / "kubectl").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "XDG_STATE_HOME": str(cluster.root / "state")}


def agents(cluster: Cluster) -> list[str]:
    return [process.command[:80] for node in cluster.nodes for process in node.matching(" hangtop ")]


def test_a_hang_is_found_in_pods(nursery: Nurseries, env: dict[str, str]) -> None:
    job = nursery.launch("lm.py", "in-pods", env={"HX_FAULT": "reader", "HX_WHO": "2"})
    try:
        job.wait_for("struck", 2)
        Reached(WAY, job.case, env).stuck_rank_is_found(2)
    finally:
        job.end()


def test_nothing_is_left_after_kill_9(nursery: Nurseries, env: dict[str, str]) -> None:
    words = [*HANGTOP, "triage", "--watch", "120", *WAY, "--batch"]
    client = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **env})
    try:
        deadline = time.monotonic() + 20
        while len(agents(nursery.cluster)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        client.kill()
        client.wait()
    deadline = time.monotonic() + 10.5
    while left := agents(nursery.cluster):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
