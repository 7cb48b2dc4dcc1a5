"""From asking for a probe to its first figure, over ``import torch`` itself; and the probe beside a plain torch script.

    python -m benchmarks.probe              # needs root, sshd, namespaces and torch

Two nodes, connections open. The plain script does the same all_reduces over the same nodes at the same priority.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence

from benchmarks.report import FigureRow, report
from collectors.fleet.ssh.asking import Questions
from collectors.fleet.ssh.config import SshConfig
from collectors.fleet.ssh.connector import Connector
from collectors.fleet.ssh.node import Ssh
from collectors.probes.allreduce.plan import ProbeNode, ProbePlan
from collectors.probes.allreduce.run import AllreduceProbe
from hangtop.cli.ask import NobodyAsker
from tests.support.cluster import Cluster

ROUNDS = 5
REPEATS = 20
PORT = 29400

PLAIN = """\
import os, sys, time
import torch
import torch.distributed as dist
torch.set_num_threads(1)
rank, host, port, repeats = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
dist.init_process_group("gloo", init_method=f"tcp://{host}:{port}", rank=rank, world_size=2)
for size in map(int, sys.argv[5:]):
    value = torch.ones(size // 4)
    dist.all_reduce(value)
    began = time.perf_counter()
    for _ in range(repeats):
        dist.all_reduce(value)
    took = (time.perf_counter() - began) / repeats
print(took, flush=True)
dist.destroy_process_group()
os._exit(0)
"""
"""Prints the seconds of one all_reduce of the last size."""

BARE = "import os, torch, torch.distributed\nos._exit(0)\n"
NICE = ["nice", "-n", "19", sys.executable, "-I", "-B"]
"""Python as the probe starts it."""


async def timed(nodes: Sequence[Ssh], commands: Sequence[list[str]]) -> tuple[float, list[bytes]]:
    """Seconds until all nodes have run their commands, and what they printed."""
    began = time.perf_counter()
    done = await asyncio.gather(*(node.run(command, timeout=60) for node, command in zip(nodes, commands, strict=True)))
    took = time.perf_counter() - began
    assert all(each.status == 0 for each in done), done
    return took, [each.stdout for each in done]


async def probed(nodes: Sequence[Ssh], plan: ProbePlan) -> tuple[float, float, float]:
    """Seconds of a whole probe, to its first figure, and of one all_reduce of the largest size."""
    began = time.perf_counter()
    first: list[float] = []

    def say(line: str) -> None:
        if line.startswith("all_reduce"):
            first.append(time.perf_counter() - began)

    found = await AllreduceProbe(plan, {n.name: n for n in nodes}, {n.name: sys.executable for n in nodes}, say).run()
    assert found.outcome == "done", found.why
    return time.perf_counter() - began, first[0], found.figures[-1].seconds


async def measure(cluster: Cluster) -> list[FigureRow]:
    """All rows, the three taken in turns."""
    connector = Connector(
        SshConfig.load(cluster.ssh_config), Questions(NobodyAsker("a benchmark has nobody to ask")), batch=True
    )
    nodes = [Ssh(name, connector.settings(name, None, None), connector) for name in cluster.names]
    await asyncio.gather(*(node.connect() for node in nodes))
    members = tuple(ProbeNode(node.name, node.address, "eth0") for node in cluster.nodes)
    plan = ProbePlan(members, python=sys.executable, bisect="never")
    host, sizes = cluster.nodes[0].address, [str(size) for size in plan.sizes]
    over, whole, ratio, imports = [], [], [], []
    for turn in range(ROUNDS):
        bare, _ = await timed(nodes, [[*NICE, "-c", BARE]] * 2)
        plain, said = await timed(
            nodes,
            [[*NICE, "-c", PLAIN, str(rank), host, str(PORT + turn), str(REPEATS), *sizes] for rank in range(2)],
        )
        took, first, seconds = await probed(nodes, plan)
        imports.append(bare)
        over.append(first - bare)
        whole.append(took - plain)
        ratio.append(seconds / max(map(float, said)))
    await connector.close()
    floor = f"import torch on 2 nodes at once {statistics.median(imports):.2g} s"
    return [
        FigureRow("from asking for a probe to its first figure, over import torch", "s", tuple(over), 2.0, floor),
        FigureRow(
            "one all_reduce of 16 MiB in the probe, as a multiple of a plain torch script's",
            "×",
            tuple(ratio),
            1.5,
            "1",
        ),
        FigureRow("a whole probe of 3 sizes, checked values and equal work, over that plain script", "s", tuple(whole)),
    ]


def main() -> None:
    """Measure, print and write."""
    with Cluster(2) as cluster:
        rows = asyncio.run(measure(cluster))
    report("probe", rows)


if __name__ == "__main__":
    main()
