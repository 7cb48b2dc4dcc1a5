"""The fleet on real nodes, by SSH and by commands: what befalls a node is shown right, and mended alone."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import pytest

from collectors.fleet.fleet import Fleet
from collectors.fleet.targets.chosen import resolve
from collectors.fleet.via.way import way_of
from collectors.samples.ranks import RankProcess
from collectors.samples.stream import Hello, Settings, Tick
from tests.support.cluster import REPOSITORY, Cluster
from tests.support.cluster_node import Node, NodeProcess
from tests.support.fake_proc import rank_env
from tests.support.seen import Seen
from tests.support.ssh_server import Person

pytestmark = pytest.mark.nodes

SETTINGS = Settings(1.0, 0.0, None, [], [], [])
CLIENT = """\
import asyncio, sys
from pathlib import Path
from collectors.fleet.fleet import Fleet
from collectors.fleet.targets.chosen import resolve
from collectors.fleet.via.way import way_of
from collectors.samples.stream import Settings
from tests.support.seen import Seen
from tests.support.ssh_server import Person
async def main():
    config, via, *names = sys.argv[1:]
    settings = Settings(1.0, 0.0, None, [], [], [])
    seen, way = Seen(), way_of(via or None)
    fleet = Fleet(resolve(names), settings, sink=seen, ask=Person().ask, ssh_config=Path(config), way=way)
    await fleet.start()
    await seen.wait(lambda: all(seen.now(name).link == "live" for name in names), 30)
    print("live", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def by_openssh(cluster: Cluster) -> str:
    """The real ``ssh``, whose connection can be cut."""
    return f"ssh -F {shlex.quote(str(cluster.ssh_config))} -o BatchMode=yes -o ConnectTimeout=3 %h sh"


def by_nsenter(cluster: Cluster, environment: Mapping[str, str] = MappingProxyType({})) -> str:
    """``nsenter``, with a banner before the shell; no sshd and no network takes part.

    ``environment`` is what a container would give to everything that is started there.
    """
    given = [f"{name}={value}" for name, value in environment.items()]
    cases = ""
    for node in cluster.nodes:
        words = shlex.join(node.enter(["env", f"PATH={node.path}", *given, "sh"]))
        cases += f"  {node.name}) echo welcome to {node.name}; exec {words};;\n"
    script = cluster.root / "enter"
    script.write_text(f'#!/bin/sh\ncase $1 in\n{cases}  *) echo "no node $1" >&2; exit 4;;\nesac\n')
    script.chmod(0o755)
    return f"{script} %h"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(4) as made:
        yield made


@asynccontextmanager
async def fleet(
    cluster: Cluster, seen: Seen, via: str | None = None, *, names: Sequence[str] = (), config: Path | None = None,
    interval: float = 1.0,
) -> AsyncIterator[Fleet]:  # fmt: skip
    """All nodes, or those named, by hangtop's own SSH where no other way is given."""
    config = config or cluster.ssh_config
    settings, way = SETTINGS._replace(interval=interval), way_of(via, config)
    made = Fleet(resolve(names or cluster.names), settings, sink=seen, ask=Person().ask, ssh_config=config, way=way)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


def ours(node: Node) -> list[NodeProcess]:
    """What hangtop runs on a node."""
    mine = [*node.matching("hangtop"), *node.matching("nvidia-smi")]
    return [p for p in mine if "node_init" not in p.command and not p.command.startswith("sshd") and p.state != "Z"]


def parent(process: NodeProcess) -> int:
    """As this machine numbers it."""
    return int(Path(f"/proc/{process.host_pid}/stat").read_text().rpartition(")")[2].split()[1])


def here(via: str) -> list[int]:
    """Local programs that lead to nodes."""
    first = via.split()[:3]
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if [word.decode(errors="replace") for word in words[: len(first)]] == first:
            found.append(int(entry.name))
    return found


def await_nothing_left(nodes: Sequence[Node], seconds: float, more: Callable[[], list[int]] = list) -> None:
    deadline = time.monotonic() + seconds
    while left := [*(process.command[:80] for node in nodes for process in ours(node)), *more()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


async def test_what_happens_to_a_node_is_shown_and_mended_and_nobody_else_notices(cluster: Cluster) -> None:
    agentless, cut, sshless, well = cluster.nodes
    seen = Seen()
    async with fleet(cluster, seen) as made:
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
        await seen.until("node1", "lost", "killed by SIGKILL")
        await seen.until("node1", "live")
        await seen.until("node3", "lost", "nothing listens at")
        await seen.until("node2", "stale", "no sample comes")
        await seen.until("node2", "lost", "link is cut")
        await asyncio.to_thread(await_nothing_left, [cut], 5.0)

        cut.restore()
        sshless.start_sshd()
        for name in ("node2", "node3"):
            await seen.until(name, "live")
        assert [change.link for change in seen.changes if change.node == well.name] == ["connecting", "live"]
        assert seen.bad == []
    await asyncio.to_thread(await_nothing_left, cluster.nodes, 2.0)


@pytest.mark.parametrize("way", ["nsenter", "ssh"])
async def test_nodes_come_live_and_their_faults_are_mended(cluster: Cluster, way: str) -> None:
    seen = Seen()
    async with fleet(cluster, seen, by_nsenter(cluster) if way == "nsenter" else way) as made:
        await seen.wait(lambda: all(seen.of(name, Tick) for name in cluster.names))
        for node in cluster.nodes:
            (hello,) = seen.of(node.name, Hello)
            assert isinstance(hello, Hello)
            assert hello.hostname == node.name
        assert (await made.transport("node3").run(["hostname"])).stdout == b"node3\n"
        first, second, *_ = cluster.nodes
        (agent,) = [process for process in ours(first) if "python" in process.command.split()[0]]
        first.kill(agent.pid, signal.SIGKILL)
        await seen.until("node1", "lost", "killed by SIGKILL")
        await seen.until("node1", "live")
        (agent,) = [process for process in ours(second) if "python" in process.command.split()[0]]
        os.kill(parent(agent), signal.SIGKILL)  # the shell goes, and with it the last mark
        await seen.until("node2", "lost", "in the middle")
        await seen.until("node2", "live")
        assert [change.link for change in seen.changes if change.node == "node3"] == ["connecting", "live"]
        assert seen.bad == []
    await asyncio.to_thread(await_nothing_left, cluster.nodes, 4.0)


async def test_what_hangtop_runs_in_a_container_with_a_rank_is_no_rank(cluster: Cluster) -> None:
    """``docker exec`` gives the container's environment to whatever it starts there."""
    seen = Seen()
    async with fleet(cluster, seen, by_nsenter(cluster, rank_env(0, 3)), interval=0.25) as made:
        await seen.wait(lambda: all(len(seen.of(name, Tick)) > 1 for name in cluster.names))
        beside = asyncio.ensure_future(made.transport("node1").run(["sh", "-c", "ls /; sleep 2 | sed -n 1p"]))
        await seen.wait(lambda: all(len(seen.of(name, Tick)) > 12 for name in cluster.names), 30)
        await beside
        assert [sample for name in cluster.names for sample in seen.of(name, RankProcess)] == []


@pytest.mark.parametrize("openssh", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_nothing_is_left_after_kill_9_whether_or_not_the_link_is_there(cluster: Cluster, openssh: bool) -> None:
    via = by_openssh(cluster) if openssh else ""
    words = [sys.executable, "-c", CLIENT, str(cluster.ssh_config), via, *cluster.names]
    client = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == "live\n"
        assert all(ours(node) for node in cluster.nodes)
        cluster.nodes[1].cut()
    finally:
        client.kill()
        client.communicate()
    await_nothing_left(cluster.nodes, 10.5, (lambda: here(via)) if via else list)
    cluster.nodes[1].restore()


async def test_max_startups_drops_are_retried(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    node.stop_sshd(sessions=False)
    node.start_sshd("MaxStartups 2:90:3")
    names = [f"alias{number}" for number in range(16)]
    config = cluster.root / "many"
    config.write_text(f"Host {' '.join(names)}\n  HostName {node.address}\n" + cluster.ssh_config.read_text())
    seen = Seen()
    async with fleet(cluster, seen, names=names, config=config):
        await seen.wait(lambda: all(seen.now(name).link == "live" for name in names))
    assert seen.bad == []
