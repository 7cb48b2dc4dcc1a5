"""The fleet on real nodes: what happens to a link, an sshd, an agent or a Python is shown right, and mended alone."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from collectors.fleet.fleet import Fleet, FleetOptions
from collectors.fleet.targets.chosen import resolve
from collectors.samples.control import Settings
from collectors.samples.stream import Hello, Tick
from tests.support.cluster import REPOSITORY, Cluster
from tests.support.cluster_node import Node, NodeProcess
from tests.support.seen import Seen
from tests.support.ssh_server import Person

pytestmark = pytest.mark.nodes

SETTINGS = Settings(1.0, 0.0, None, [], [], [])
CLIENT = """\
import asyncio, sys
from collectors.fleet.fleet import Fleet, FleetOptions
from collectors.fleet.targets.chosen import resolve
from collectors.samples.control import Settings
from collectors.samples.stream import Tick
from pathlib import Path
class Sink:
    def __init__(self): self.ticking = set()
    def link(self, change): pass
    def bad_line(self, *said): pass
    def samples(self, node, samples):
        if any(isinstance(sample, Tick) for sample in samples) and node not in self.ticking:
            self.ticking.add(node)
            print(node, flush=True)
class Nobody:
    async def ask(self, question): return None
    def tell(self, text): pass
async def main():
    options = FleetOptions(Settings(1.0, 0.0, None, [], [], []), Path(sys.argv[1]))
    fleet = Fleet(resolve(sys.argv[2:]), sink=Sink(), asker=Nobody(), options=options)
    await fleet.start()
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(4) as made:
        yield made


@asynccontextmanager
async def fleet(cluster: Cluster, names: Sequence[str], seen: Seen, config: Path | None = None) -> AsyncIterator[Fleet]:
    options = FleetOptions(SETTINGS, config or cluster.ssh_config, version="v")
    made = Fleet(resolve(names), sink=seen, asker=Person(), options=options)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


def ours(node: Node) -> list[NodeProcess]:
    """What hangtop runs on a node."""
    mine = [*node.matching("hangtop"), *node.matching("nvidia-smi")]
    return [p for p in mine if "node_init" not in p.command and not p.command.startswith("sshd") and p.state != "Z"]


def await_nothing_left(nodes: Sequence[Node], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while left := [process.command[:80] for node in nodes for process in ours(node)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


async def test_what_happens_to_a_node_is_shown_and_mended_and_nobody_else_notices(cluster: Cluster) -> None:
    agentless, cut, sshless, well = cluster.nodes
    seen = Seen()
    async with fleet(cluster, cluster.names, seen) as made:
        await seen.wait(lambda: all(seen.of(name, Tick) for name in cluster.names))
        for node in cluster.nodes:
            assert [process.state for process in ours(node)] != []
            (hello,) = seen.of(node.name, Hello)
            assert isinstance(hello, Hello)
            assert hello.hostname == node.name
        assert (await made.transport("node4").run(["hostname"])).stdout == b"node4\n"

        (agent,) = ours(agentless)
        agentless.kill(agent.pid, signal.SIGKILL)
        cut.cut()
        sshless.stop_sshd()
        await seen.until("node1", "lost", "killed (SIGKILL)")
        await seen.until("node1", "live")
        await seen.until("node3", "lost", "nothing listens at")
        await seen.until("node2", "stale", "no sample comes")
        await seen.until("node2", "lost", "link is cut")
        assert (seen.now("node2").next_try or time.time()) < time.time() + 15
        await asyncio.to_thread(await_nothing_left, [cut], 5.0)

        cut.restore()
        sshless.start_sshd()
        for name in ("node2", "node3"):
            await seen.until(name, "live")
        assert [change.link for change in seen.changes if change.node == well.name] == ["connecting", "live"]
        assert seen.bad == []
    await asyncio.to_thread(await_nothing_left, cluster.nodes, 2.0)


def test_nothing_is_left_after_kill_9_whether_or_not_the_link_is_there(cluster: Cluster) -> None:
    cut = cluster.nodes[1]
    words = [sys.executable, "-c", CLIENT, str(cluster.ssh_config), *cluster.names]
    client = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    try:
        assert client.stdout is not None
        assert {client.stdout.readline().strip() for _ in cluster.nodes} == set(cluster.names)
        assert all(ours(node) for node in cluster.nodes)
        cut.cut()
    finally:
        client.kill()
        client.communicate()
    await_nothing_left(cluster.nodes, 10.0)
    cut.restore()


async def test_max_startups_drops_are_retried(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    node.stop_sshd(sessions=False)
    node.start_sshd("MaxStartups 2:90:3")
    names = [f"alias{number}" for number in range(16)]
    config = cluster.root / "many"
    config.write_text(f"Host {' '.join(names)}\n  HostName {node.address}\n" + cluster.ssh_config.read_text())
    seen = Seen()
    async with fleet(cluster, names, seen, config):
        await seen.wait(lambda: all(seen.now(name).link == "live" for name in names))
