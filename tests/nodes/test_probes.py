"""Probes between real nodes: each planted fault is named alone, and a good cluster accuses nobody."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.cluster_node import Node

# not beside jobs that start: what is measured would be the jobs'
pytestmark = [pytest.mark.nodes, pytest.mark.xdist_group("nursery")]

HANGTOP = (sys.executable, "-c", "from hangtop.cli.main import main; main()")
NEEDS_NFT = pytest.mark.skipif(shutil.which("nft") is None, reason="packets are dropped by nft")
BLOCK_SYN = "iifname eth0 tcp flags & (syn | ack) == syn tcp dport != 22 drop"
LOSE = "numgen random mod 100 < 5 drop"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(4) as four:
        four.add_network()
        yield four


def environment(cluster: Cluster) -> dict[str, str]:
    """Of hangtop: what it keeps of probes goes with the cluster."""
    return {**os.environ, "XDG_STATE_HOME": str(cluster.root / "state")}


def ask(cluster: Cluster, *words: str) -> tuple[int, dict[str, Any]]:
    command = [*HANGTOP, *words, "-F", str(cluster.ssh_config), "--batch", "--json", *cluster.names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, env=environment(cluster))
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


PLANTS = {
    "packet_loss": f"nft table ip fault {{ chain input {{ type filter hook input priority 0; {LOSE}; }}; }}",
    "path_blocked": f"nft table ip fault {{ chain input {{ type filter hook input priority 0; {BLOCK_SYN}; }}; }}",
    "mtu_mismatch": "ip link set eth0 mtu 1400",
    "bandwidth_low": "tc qdisc add dev eth0 root tbf rate 100mbit burst 64kb latency 50ms",
}
"""Commands that make a node bad, by the finding that names it."""


def plant(node: Node, kind: str) -> None:
    program, _, rest = PLANTS[kind].partition(" ")
    node.run([program, rest] if program == "nft" else [program, *rest.split()])


def heal(node: Node) -> None:
    for command in (
        ["nft", "delete", "table", "ip", "fault"],
        ["tc", "qdisc", "del", "dev", "eth0", "root"],
        ["ip", "link", "set", "eth0", "mtu", "1500"],
    ):
        node.run(command, check=False)


def test_good_paths_are_well(cluster: Cluster) -> None:
    code, answer = ask(cluster, "probe", "path", "--seconds", "0.2")
    assert (code, answer["verdict"], answer["findings"]) == (0, "ok", [])
    assert len(answer["paths"]) == 12
    assert {path["mtu"] for path in answer["paths"]} == {1500}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("packet_loss", marks=NEEDS_NFT), "bandwidth_low", "mtu_mismatch"])
def test_a_bad_node_is_named_alone(cluster: Cluster, kind: str) -> None:
    node = cluster.nodes[2]
    plant(node, kind)
    try:
        code, answer = ask(cluster, "probe", "path", "--seconds", "0.2")
    finally:
        heal(node)
    assert code == 1
    assert (answer["findings"][0]["kind"], answer["findings"][0]["nodes"]) == (kind, [node.name])


@NEEDS_NFT
def test_probe_and_preflight_side_by_side_name_the_node_that_others_cannot_reach(cluster: Cluster) -> None:
    node = cluster.nodes[2]
    plant(node, "path_blocked")
    try:
        with ThreadPoolExecutor() as pool:
            probe = pool.submit(ask, cluster, "probe", "path", "--seconds", "0.2")
            code, answer = ask(cluster, "preflight")
    finally:
        heal(node)
    probed, paths = probe.result()
    first = paths["findings"][0]
    assert (probed, first["kind"], first["nodes"]) == (1, "path_blocked", [node.name])
    assert f"nftables on {node.name} (table ip fault, chain input: " in str(first["evidence"])
    red = {(cell["node"], cell["kind"]) for cell in answer["checks"] if cell["state"] == "fail"}
    assert (code, answer["verdict"]) == (1, "failed")
    # The first node is the master: it is the one that cannot get through to the blocked node.
    assert red == {(cluster.names[0], "path_blocked")}
    broken = next(cell for cell in answer["checks"] if cell["kind"] == "path_blocked")
    assert node.address in broken["figure"]
    assert f"nftables on {node.name}" in broken["figure"]
    assert broken["remedy"].startswith(f"on {node.name}: nft insert rule")


@pytest.mark.slow
@pytest.mark.torch
def test_collectives_are_right_and_a_slow_node_stands_alone(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    plant(node, "bandwidth_low")
    try:
        code, answer = ask(cluster, "probe", "--python", sys.executable)
    finally:
        heal(node)
    assert code == 1
    named = {finding["kind"]: finding["nodes"] for finding in answer["findings"]}
    assert named["bandwidth_low"] == [node.name]
    assert not any(result["wrong_ranks"] for result in answer["results"])
    assert len(answer["pairs"]) == 6


PROBING = 3
"""Processes of ours on a node under a probe, at least: what watches it, the launcher, the worker."""


def come_to(nodes: Sequence[Node], least: int, most: int, seconds: float) -> bool:
    """Whether each node came to have so many processes of ours within the time."""
    deadline = time.monotonic() + seconds
    # the words that every program of ours is started with
    while not all(least <= len(node.matching("-B -u -c")) <= most for node in nodes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.fixture
def probing(cluster: Cluster) -> Iterator[subprocess.Popen[str]]:
    """A probe of collectives that is under way on every node, and would go on for a while."""
    process = subprocess.Popen(
        [*HANGTOP, "probe", "-F", str(cluster.ssh_config), "--batch", "--json", "--python", sys.executable,
         *cluster.names],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(cluster),
    )  # fmt: skip
    assert come_to(cluster.nodes, PROBING, 99, 30)
    time.sleep(1.0)  # into the import of torch, or past it
    with process:
        yield process
        process.kill()


@pytest.mark.torch
def test_nothing_is_left_on_any_node_after_a_kill(cluster: Cluster, probing: subprocess.Popen[str]) -> None:
    probing.kill()
    assert come_to(cluster.nodes, 0, 0, 10)


@pytest.mark.slow
@pytest.mark.torch
def test_stopped_it_answers_and_leaves_nothing_even_behind_a_link_that_was_cut(
    cluster: Cluster, probing: subprocess.Popen[str]
) -> None:
    *others, lost = cluster.nodes
    lost.cut()
    try:
        probing.send_signal(signal.SIGINT)
        said, _ = probing.communicate(timeout=20)
        assert come_to(others, 0, 0, 2)
        assert come_to([lost], 0, 0, 12)  # by its alarm: nobody could tell it
    finally:
        lost.restore()
    assert (probing.returncode, json.loads(said)["verdict"]) == (1, "cancelled")
