"""What one handshake costs here, against a real sshd: alone, and among 2,048 hosts that are configured and known.

python -m benchmarks.handshakes         # needs root, sshd and namespaces
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from pathlib import Path

from benchmarks.report import FigureRow, report
from collectors.fleet.ssh.asking import Questions
from collectors.fleet.ssh.config import SshConfig
from collectors.fleet.ssh.connector import Connector
from collectors.fleet.ssh.node import Ssh
from tests.support.cluster import Cluster
from tests.support.ssh_server import Person

CONNECTIONS = 64
ROUNDS = 7
OTHERS = 2048


async def client_cpu(config: Path) -> tuple[float, float]:
    """Client CPU of a handshake, and of preparing a host beforehand; both in milliseconds."""
    began = time.process_time()
    connector = Connector(SshConfig.load(config), Questions(Person()))
    nodes = [Ssh(f"n{i}", connector.settings("node1", None, None), connector) for i in range(CONNECTIONS)]
    prepared = time.process_time()
    await asyncio.gather(*(node.connect() for node in nodes))
    done = time.process_time()
    await asyncio.gather(*(node.close() for node in nodes))
    await connector.close()
    return (done - prepared) / CONNECTIONS * 1000, (prepared - began) / CONNECTIONS * 1000


def crowded(cluster: Cluster, *, hashed: bool) -> Path:
    """A configuration and a known_hosts of 2,048 hosts more."""
    known = cluster.root / f"known_hosts_{hashed}"
    key = cluster.nodes[0].host_key()
    known.write_text("".join(f"other{i}.example.com {key}\n" for i in range(OTHERS)) + cluster.known_hosts.read_text())
    if hashed:
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True)
    config = cluster.root / f"config_{hashed}"
    others = "".join(f"Host other{i}\n  HostName 10.1.{i // 256}.{i % 256}\n  User u{i}\n" for i in range(OTHERS))
    config.write_text(others + f"Host *\n  UserKnownHostsFile {known}\n" + cluster.ssh_config.read_text())
    return config


def main() -> None:
    """Measure and report."""
    with Cluster(1) as cluster:
        cases = {
            "alone": cluster.ssh_config,
            "among 2,048 hosts": crowded(cluster, hashed=False),
            "among 2,048 hosts, hashed": crowded(cluster, hashed=True),
        }
        figures = {name: [asyncio.run(client_cpu(config)) for _ in range(ROUNDS)] for name, config in cases.items()}
    floors = {"alone": "2.5 ms", "among 2,048 hosts": "98 ms, parsed each time", "among 2,048 hosts, hashed": "110 ms"}
    rows = []
    for name, measured in figures.items():
        rows.append(
            FigureRow(f"handshake, client CPU, {name}", "ms", tuple(one for one, _ in measured), 3.0, floors[name])
        )
        rows.append(
            FigureRow(f"… and what was read before, a host, {name}", "ms", tuple(before for _, before in measured))
        )
    report("handshakes", rows)


if __name__ == "__main__":
    main()
