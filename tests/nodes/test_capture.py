"""A capture on a real node whose way out loses packets: our count of what was sent again is the kernel's own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.cluster_node import Node

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

HANGTOP = (sys.executable, "-c", "from hangtop.cli.main import main; main()")
SINK = """\
import socket
server = socket.create_server(("0.0.0.0", 29500))
print("ready", flush=True)
connection, _ = server.accept()
while connection.recv(1 << 18):
    pass
connection.sendall(b".")
"""
SEND = """\
import socket, struct, sys, time
connection = socket.create_connection((sys.argv[1], 29500))
until = time.monotonic() + 1.0
while time.monotonic() < until:
    connection.sendall(bytes(1 << 14))
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
print(*struct.unpack_from("=QQ", info, 200))
"""
"""Says bytes_sent and bytes_retrans of struct tcp_info (linux/tcp.h, since 4.19)."""


def wait_for_tcpdump(node: Node) -> None:
    deadline = time.monotonic() + 20
    while not node.matching("tcpdump"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)


@pytest.mark.skipif(not any(Path(f, "tcpdump").exists() for f in ("/usr/bin", "/usr/sbin")), reason="needs tcpdump")
def test_what_was_sent_again_is_counted_as_the_kernel_counts(tmp_path: Path) -> None:
    with Cluster(2) as cluster:
        one, two = cluster.nodes
        two.run(["nft", "add", "table", "ip", "fault"])
        two.run(["nft", "add chain ip fault input { type filter hook input priority 0; }"])
        two.run(["nft", "add rule ip fault input tcp dport 29500 numgen random mod 100 < 4 drop"])
        sink = two.spawn([sys.executable, "-c", SINK], stdout=subprocess.PIPE)
        assert sink.stdout is not None
        assert sink.stdout.readline() == b"ready\n"
        words = ["--seconds", "8", "--max-mb", "200", "--out", str(tmp_path), "--yes", "--json", "--batch"]
        hangtop = subprocess.Popen(
            [*HANGTOP, "probe", "capture", *words, "-F", str(cluster.ssh_config), *cluster.names],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        for node in cluster.nodes:
            wait_for_tcpdump(node)
        sent, again = map(int, one.run([sys.executable, "-c", SEND, two.address]).stdout.split())
        out, errors = hangtop.communicate(timeout=180)
        assert out, errors
        answer = json.loads(out)
        sink.communicate(timeout=10)
        assert not any(node.matching("tcpdump") for node in cluster.nodes)
    assert all(capture["dropped_by_kernel"] == 0 for capture in answer["captures"])
    here = next(row for row in answer["traffic"] if (row["node"], row["source"]) == ("node1", "node1"))
    assert (here["size"], here["again_size"]) == (sent, again)
    assert again > 0
    behind = next(row for row in answer["traffic"] if (row["node"], row["source"]) == ("node2", "node1"))
    assert (behind["sent_here"], behind["target"]) == (False, "node2")
    assert (answer["verdict"], answer["findings"][0]["kind"]) == ("slow", "packet_loss")
