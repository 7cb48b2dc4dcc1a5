"""A capture on real nodes: headers of the job's connection come here as a file, and no tcpdump is left."""

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
"""
SEND = """\
import socket, sys
with socket.create_connection((sys.argv[1], 29500)) as connection:
    connection.sendall(bytes(1 << 20))
"""


def wait_for_tcpdump(node: Node) -> None:
    deadline = time.monotonic() + 20
    while not node.matching("tcpdump"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)


@pytest.mark.skipif(not any(Path(f, "tcpdump").exists() for f in ("/usr/bin", "/usr/sbin")), reason="needs tcpdump")
def test_headers_of_the_job_s_connection_come_here(tmp_path: Path) -> None:
    with Cluster(2) as cluster:
        one, two = cluster.nodes
        sink = two.spawn([sys.executable, "-c", SINK], stdout=subprocess.PIPE)
        assert sink.stdout is not None
        assert sink.stdout.readline() == b"ready\n"
        words = ["--seconds", "6", "--out", str(tmp_path), "--yes", "--json", "--batch"]
        hangtop = subprocess.Popen(
            [*HANGTOP, "probe", "capture", *words, "-F", str(cluster.ssh_config), *cluster.names],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        for node in cluster.nodes:
            wait_for_tcpdump(node)
        one.run([sys.executable, "-c", SEND, two.address])
        out, errors = hangtop.communicate(timeout=180)
        assert out, errors
        answer = json.loads(out)
        sink.communicate(timeout=10)
        assert not any(node.matching("tcpdump") for node in cluster.nodes)
    assert answer["verdict"] == "ok"
    for capture in answer["captures"]:
        assert capture["bytes"] > 24, "more than the head of a file"
        assert Path(capture["file"]).read_bytes()[:4] in (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4")
