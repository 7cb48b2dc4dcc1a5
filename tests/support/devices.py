"""Simulated GPUs and one InfiniBand port on every node of a test cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from hangtop.demo.devices.bench import Bench, Hardware
from hangtop.demo.job.device import RECORD
from tests.support.cluster import Cluster
from tests.support.cluster_node import Node
from tests.support.faulty import FaultyJob
from tests.support.sysfs import write_port

PORT = "mlx5_0"


class Devices:
    """The devices of all nodes, by the names of the nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self.benches: dict[str, Bench] = {}
        for node in cluster.nodes:
            bench = self.benches[node.name] = Bench(node.root / "devices", Hardware(gpus=2, ports=1))
            bench.install()
            (node.bin / "nvidia-smi").symlink_to(bench.bin / "nvidia-smi")
            self.port(node)

    @property
    def environment(self) -> Mapping[str, Mapping[str, str]]:
        """What ranks that run kernels themselves find, by node."""
        return {name: {"HANGTOP_DEMO_DEVICES": str(bench.folder)} for name, bench in self.benches.items()}

    def port(self, node: Node, *, downs: int = 0) -> None:
        """Bring the node's port up, after so many times that it was down."""
        write_port(
            node.infiniband.parent, PORT, adapters=node.infiniband, state="4: ACTIVE", phys_state="5: LinkUp",
            counters={"link_downed": downs, "symbol_error": 0},
        )  # fmt: skip

    def hold(self, job: FaultyJob) -> None:
        """Have nvidia-smi show kernels of the job's ranks: each on the GPU of its local number."""
        for rank in range(len(job.nodes) * job.ranks_per_node):
            node, process = job.processes(rank)[0]
            record = RECORD.pack(process.pid, time.monotonic(), 0.0, 20 << 30, 0)
            (self.benches[node.name].folder / f"gpu{rank % job.ranks_per_node}.state").write_bytes(record)


@contextmanager
def devices_of(cluster: Cluster) -> Iterator[Devices]:
    """Devices for as long as the block lasts; then the nodes are as they were."""
    yield Devices(cluster)
    for node in cluster.nodes:
        (node.bin / "nvidia-smi").unlink()
        node.run(["rm", "-r", f"/sys/class/infiniband/{PORT}", str(node.root / "devices")])
