"""Stacks of 64 ranks on 8 nodes, beside py-spy alone; and the pause of a target, measured in the target.

    python -m benchmarks.stacks             # needs root, sshd and namespaces

Ranks are idle processes of the distribution's Python. The floor is py-spy itself, started by one shell command a node
over the same open connections. The first look of a session starts the dumper on every node, later ones find it there.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.report import FigureRow, report
from collectors.fleet.ssh.asking import Questions
from collectors.fleet.ssh.connector import Connector
from collectors.fleet.ssh.node import Ssh
from collectors.fleet.targets.chosen import Target
from collectors.node.stacks.pyspy import dump_command
from collectors.probes.stacks import dump
from collectors.probes.stacks.lender import own_py_spy
from hangtop.cli.terminal import NobodyAsker
from tests.support.cluster import Cluster

NODES, RANKS, ROUNDS = 8, 8, 9
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
Pids = dict[str, list[int]]
"""Processes of each node, by its name."""

RANK = "import time\ndef wait_for_peers():\n    time.sleep(600)\nwait_for_peers()\n"
TARGET = """\
import signal, time
longest = 0.0
def tell(*_):
    global longest
    print(longest, flush=True)
    longest = 0.0
signal.signal(signal.SIGUSR1, tell)
print("ready", flush=True)
before = time.perf_counter()
while True:
    now = time.perf_counter()
    if now - before > longest:
        longest = now - before
    before = now
"""


def by_hand(pids: Sequence[int]) -> str:
    """One shell command that dumps these processes at once."""
    spy = str(own_py_spy())
    dumps = (" ".join(dump_command(spy, pid, "nonblocking", with_locals=False)) for pid in pids)
    return " & ".join(dumps) + " & wait"


class Times(NamedTuple):
    """Seconds of each round."""

    first: list[float]
    """Ours, the first look over a connection."""
    again: list[float]
    """Ours, another one soon after."""
    floor: list[float]


async def ours(nodes: Sequence[Ssh], pids: Pids) -> float:
    """Seconds of one look at all ranks."""
    began = time.perf_counter()
    found = await asyncio.gather(*(dump(node, pids[node.name], python=PYTHON) for node in nodes))
    took = time.perf_counter() - began
    bad = [each.error for dumps in found for each in dumps if each.error]
    assert not bad, bad
    assert sum(map(len, found)) == NODES * RANKS
    return took


async def over_connections(cluster: Cluster, pids: Pids) -> Times:
    """Take turns: our dumps, the floor."""
    nobody = NobodyAsker("a benchmark has nobody to ask")
    connector = Connector(cluster.ssh_config, Questions(nobody, batch=True))
    times = Times([], [], [])
    for _ in range(ROUNDS):
        nodes = [Ssh(Target(name, name), connector) for name in cluster.names]
        await asyncio.gather(*(node.connect() for node in nodes))
        times.first.append(await ours(nodes, pids))
        times.again.append(await ours(nodes, pids))
        began = time.perf_counter()
        shells = await asyncio.gather(*(node.run(["sh", "-c", by_hand(pids[node.name])]) for node in nodes))
        times.floor.append(time.perf_counter() - began)
        assert all(b"wait_for_peers" in shell.stdout for shell in shells)
        await asyncio.gather(*(node.close() for node in nodes))
    await connector.close()
    return Times(*(each[1:] for each in times))


def pauses() -> list[FigureRow]:
    """The longest time that a target lost while it was dumped, as it saw it itself, beside an undisturbed one."""
    target = subprocess.Popen([sys.executable, "-c", TARGET], stdout=subprocess.PIPE, text=True)
    assert target.stdout is not None
    target.stdout.readline()
    rows = []
    for name, words in (
        ("undisturbed", ["sleep", "0.02"]),
        ("non-blocking dump", dump_command(str(own_py_spy()), target.pid, "nonblocking", with_locals=True)),
        ("blocking dump", dump_command(str(own_py_spy()), target.pid, "blocking", with_locals=False)),
        ("native dump", dump_command(str(own_py_spy()), target.pid, "native", with_locals=False)),
    ):
        lost = []
        for _ in range(21):
            target.send_signal(signal.SIGUSR1)
            target.stdout.readline()
            subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
            target.send_signal(signal.SIGUSR1)
            lost.append(1000 * float(target.stdout.readline()))
        rows.append(FigureRow(f"longest pause of a busy target, {name}", "ms", tuple(sorted(lost)), None, ""))
    target.kill()
    target.wait()
    return rows


def main() -> None:
    """Measure, print and write."""
    with Cluster(NODES) as cluster:
        for node in cluster.nodes:
            for _ in range(RANKS):
                node.spawn([PYTHON, "-c", RANK])
        time.sleep(2.0)
        pids = {node.name: [each.pid for each in node.matching("wait_for_peers")][:RANKS] for node in cluster.nodes}
        assert all(len(own) == RANKS for own in pids.values()), pids
        times = asyncio.run(over_connections(cluster, pids))
    least = statistics.median(times.floor)
    name, floor = "stacks of 64 ranks on 8 nodes, open connections", f"py-spy alone {least:.2f} s"
    rows = [
        FigureRow(name, "s", tuple(times.again), 0.25, floor),
        FigureRow("the same as a multiple of py-spy alone", "×", tuple(mine / least for mine in times.again), 2.0, "1"),
        FigureRow(f"{name}, the first look out of the blue", "s", tuple(times.first), None, floor),
    ]
    report("stacks", rows + pauses())


if __name__ == "__main__":
    main()
