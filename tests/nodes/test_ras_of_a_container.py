"""NCCL's RAS of a rank in a container: asked in the rank's own network, where its address is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from collectors.fleet.local import Local
from collectors.fleet.transport import TransportError
from collectors.node.processes.namespaces import foreign_network
from collectors.probes import ras

pytestmark = pytest.mark.nodes

WHERE = ("127.0.0.1", 28028)
SERVER = """\
import json, socket
status = {"nccl_version": "2.32.3", "communicators_count": 0, "communicators": [], "ras": {}}
with socket.create_server(("127.0.0.1", 28028)) as server:
    print("ready", flush=True)
    while True:
        connection, _ = server.accept()
        with connection, connection.makefile() as lines:
            for line in lines:
                command = line.strip().lower()
                if command == "verbose status":
                    connection.sendall(json.dumps(status).encode())
                    break
                connection.sendall(b"SERVER PROTOCOL 2\\n" if command.startswith("client") else b"OK\\n")
"""


@pytest.fixture
def rank() -> Iterator[int]:
    """A process with a network of its own, in which RAS listens."""
    words = ["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", sys.executable, "-c", SERVER]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            assert foreign_network(process.pid)
            yield process.pid
        finally:
            process.kill()


async def test_it_is_asked_where_the_rank_is(rank: int) -> None:
    node = Local("node1")
    assert (await ras.ask(node, sys.executable, rank, WHERE, 5.0)).nccl == "2.32.3"
    with pytest.raises(TransportError):  # nobody listens there in this network
        await ras.ask(node, sys.executable, 1, WHERE, 5.0)
