"""``true`` on 64 nodes: over open connections, cold, and with the tools that operators use.

    python -m benchmarks.fan_out            # needs root, sshd and namespaces; pdsh and clush if they are there

The 64 names are 8 real nodes under 8 names each. OpenSSH's client spends most of its cold time on its post-quantum key
exchange, so pdsh and clush are also measured with curve25519, which is what the comparison counts.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.report import FigureRow, report
from collectors.fleet.ssh.asking import Questions
from collectors.fleet.ssh.config import SshConfig
from collectors.fleet.ssh.connector import Connector
from collectors.fleet.ssh.node import Ssh
from tests.support.cluster import Cluster
from tests.support.ssh_server import Person

MACHINES = 8
NAMES = 64
ROUNDS = 5
THEIR_ROUNDS = 3
PATIENCE = 40.0
"""Seconds after which one run of theirs is given up."""
FAST = "KexAlgorithms=curve25519-sha256"


def many_names(cluster: Cluster) -> Path:
    """A configuration in which n0 … n63 are the cluster's nodes in turn."""
    blocks = [f"Host n{i}\n  HostName {cluster.nodes[i % MACHINES].address}\n" for i in range(NAMES)]
    config = cluster.root / "many"
    config.write_text("".join(blocks) + cluster.ssh_config.read_text())
    return config


async def ours(config: Path) -> tuple[list[float], list[float]]:
    """Seconds over open connections, and cold with connecting."""
    opened, cold = [], []
    for _ in range(ROUNDS):
        connector = Connector(SshConfig.load(config), Questions(Person()))
        nodes = [Ssh(f"n{i}", connector.settings(f"n{i}", None, None), connector) for i in range(NAMES)]
        began = time.perf_counter()
        await asyncio.gather(*(node.connect() for node in nodes))
        await asyncio.gather(*(node.run(["true"]) for node in nodes))
        cold.append(time.perf_counter() - began)
        began = time.perf_counter()
        done = await asyncio.gather(*(node.run(["true"]) for node in nodes))
        opened.append(time.perf_counter() - began)
        assert all(one.status == 0 for one in done)
        await asyncio.gather(*(node.close() for node in nodes))
        await connector.close()
    return opened, cold


def theirs(words: list[str]) -> tuple[float, ...]:
    """Seconds that a command takes; it must reach every node. Nobody answers its questions."""
    taken = []
    for _ in range(THEIR_ROUNDS):
        began = time.perf_counter()
        subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
        taken.append(time.perf_counter() - began)
    return tuple(taken)


def tools(config: Path, option: str) -> dict[str, list[str]]:
    """Command lines of the tools that are here, by name."""
    names, ssh = f"n[0-{NAMES - 1}]", f"-F {config} -o {option}"
    found = {}
    if shutil.which("pdsh"):
        settings = ["env", f"PDSH_SSH_ARGS_APPEND={ssh}"]
        found["pdsh"] = [*settings, "pdsh", "-S", "-R", "ssh", "-f", str(NAMES), "-w", names, "true"]
    clush = shutil.which("clush") or shutil.which("clush", path=str(Path(sys.executable).parent))
    if clush:
        found["clush"] = [clush, "-S", "-f", str(NAMES), "-o", ssh, "-w", names, "true"]
    return found


def main() -> None:
    """Measure and report."""
    with Cluster(MACHINES, sshd_options=("MaxStartups 200", "MaxSessions 100")) as cluster:
        config = many_names(cluster)
        opened, cold = asyncio.run(ours(config))
        rows = [
            FigureRow("64 nodes, open connections", "s", tuple(opened), 0.2, "0.11 to 0.12 s"),
            FigureRow("64 nodes, cold", "s", tuple(cold), None, "1.20 s"),
        ]
        floors = {"pdsh": "1.19 s", "clush": "1.28 s"}
        for label, option in (("curve25519", FAST), ("its default exchange", "BatchMode=yes")):
            for name, words in tools(config, option).items():
                rows.append(FigureRow(f"{name}, cold, {label}", "s", theirs(words), None, floors[name]))
    report("fan_out", rows)


if __name__ == "__main__":
    main()
