"""Nodes reached by a command instead of by hangtop's own SSH: the same node side and faults, nothing left behind."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import pytest

from collectors.fleet.fleet import Fleet, FleetOptions
from collectors.fleet.targets.chosen import resolve
from collectors.fleet.via.way import way_of
from collectors.samples.control import Settings
from collectors.samples.ranks import RankProcess
from collectors.samples.stream import Hello, Tick
from tests.support.cluster import REPOSITORY, Cluster
from tests.support.cluster_node import Node, NodeProcess
from tests.support.fake_proc import rank_env
from tests.support.seen import Seen
from tests.support.ssh_server import Person

pytestmark = pytest.mark.nodes

SETTINGS = Settings(1.0, 0.0, None, [], [], [])
CLIENT = """\
import asyncio, sys
from collectors.fleet.fleet import Fleet, FleetOptions
from collectors.fleet.targets.chosen import resolve
from collectors.fleet.via.way import way_of
from collectors.samples.control import Settings
from tests.support.seen import Seen
from tests.support.ssh_server import Person
async def main():
    options = FleetOptions(Settings(1.0, 0.0, None, [], [], []), way=way_of(sys.argv[1]))
    seen = Seen()
    fleet = Fleet(resolve(sys.argv[2:]), sink=seen, asker=Person(), options=options)
    await fleet.start()
    await seen.wait(lambda: all(seen.now(name).link == "live" for name in sys.argv[2:]), 30)
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
    with Cluster(3) as made:
        yield made


@asynccontextmanager
async def fleet(cluster: Cluster, via: str, seen: Seen) -> AsyncIterator[Fleet]:
    options = FleetOptions(SETTINGS, version="v", way=way_of(via, cluster.ssh_config))
    made = Fleet(resolve(cluster.names), sink=seen, asker=Person(), options=options)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


def ours(node: Node) -> list[NodeProcess]:
    """What hangtop runs on a node, shells that wait for it among them."""
    mine = [p for p in node.matching("hangtop") if "node_init" not in p.command and p.state != "Z"]
    return [process for process in mine if not process.command.startswith("sshd")]


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


def await_nothing_left(nodes: list[Node], seconds: float, more: Callable[[], list[int]] = list) -> None:
    deadline = time.monotonic() + seconds
    while left := [*(process.command[:80] for node in nodes for process in ours(node)), *more()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.parametrize("way", ["nsenter", "ssh"])
async def test_nodes_come_live_and_their_faults_are_mended(cluster: Cluster, way: str) -> None:
    seen = Seen()
    async with fleet(cluster, by_nsenter(cluster) if way == "nsenter" else way, seen) as made:
        await seen.wait(lambda: all(seen.of(name, Tick) for name in cluster.names))
        for node in cluster.nodes:
            (hello,) = seen.of(node.name, Hello)
            assert isinstance(hello, Hello)
            assert hello.hostname == node.name
        assert (await made.transport("node3").run(["hostname"])).stdout == b"node3\n"
        first, second, _ = cluster.nodes
        (agent,) = [process for process in ours(first) if "python" in process.command.split()[0]]
        first.kill(agent.pid, signal.SIGKILL)
        await seen.until("node1", "lost", "killed (SIGKILL)")
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
    async with fleet(cluster, by_nsenter(cluster, rank_env(0, 3)), seen) as made:
        await seen.wait(lambda: all(len(seen.of(name, Tick)) > 1 for name in cluster.names))
        beside = asyncio.ensure_future(made.transport("node1").run(["sh", "-c", "ls /; sleep 4 | sed -n 1p"]))
        await seen.wait(lambda: all(len(seen.of(name, Tick)) > 6 for name in cluster.names), 30)
        await beside
        assert [sample for name in cluster.names for sample in seen.of(name, RankProcess)] == []


@pytest.mark.slow
def test_nothing_is_left_after_kill_9(cluster: Cluster) -> None:
    via = by_openssh(cluster)
    words = [sys.executable, "-c", CLIENT, via, *cluster.names]
    client = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == "live\n"
        assert all(ours(node) for node in cluster.nodes)
        cluster.nodes[0].cut()
    finally:
        client.kill()
        client.communicate()
    await_nothing_left(cluster.nodes, 10.5, lambda: here(via))
    cluster.nodes[0].restore()
