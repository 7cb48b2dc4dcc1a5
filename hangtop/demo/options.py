"""What a demo is asked to show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from hangtop.demo.backend import GLOO, NCCL, ONLY_GLOO, ONLY_NCCL
from hangtop.demo.job.faults import FAULTS as JOB_FAULTS

DEVICE_FAULTS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "gpu-lost": ("gpu{local} lost", "a GPU falls off the bus"),
        "gpu-throttled": ("gpu{local} throttled", "a GPU is slowed down by heat"),
        "gpu-ecc": ("gpu{local} ecc", "a GPU has uncorrectable memory errors"),
        "driver-hung": ("driver wedged", "nvidia-smi does not answer any more"),
        "port-flapping": ("port{local} flapping", "an InfiniBand port goes down and comes back"),
        "port-down": ("port{local} down", "an InfiniBand port is down"),
    }
)
"""Faults of simulated devices: what is planted on the culprit's node, and what happens."""

FAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {**JOB_FAULTS, **{name: what for name, (_, what) in DEVICE_FAULTS.items()}}
)
"""Every fault of a demo, and what happens."""

SCRIPTS: Final = ("train", "trainer", "pipeline", "grid")
LAYOUTS: Final = ("data", "grid", "pipeline")
"""How the ranks of the job over NCCL share the work: data alone; tensors, stages and data; stages alone."""
_ONLY_BY_HAND = ("mismatch", "size")


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of one demo. Times are seconds."""

    nodes: int = 2
    ranks: int = 4
    fault: str = ""
    fault_rank: int = 1
    after: float = 15.0
    """From the first step of training."""
    step_time: float = 0.25
    workers: int = 0
    """Data loader workers of each rank."""
    script: str = ""
    """One of :data:`SCRIPTS`, over gloo; empty: the one that the fault needs."""
    backend: str = GLOO
    """``gloo``, or ``nccl``: ranks that wait below Python, for a GPU that works by itself."""
    layout: str = "data"
    """One of :data:`LAYOUTS`, over NCCL."""
    extra: tuple[str, ...] = ()
    """Further words for the job's command line."""

    def __post_init__(self) -> None:
        """Refuse what cannot be shown, in one line."""
        if self.ranks % self.nodes:
            raise ValueError(f"{self.ranks} ranks cannot be shared evenly by {self.nodes} nodes")
        if not 0 <= self.fault_rank < self.ranks:
            raise ValueError(f"there is no rank {self.fault_rank} among {self.ranks}")
        if self.fault and self.fault not in FAULTS:
            raise ValueError(f"no fault is called {self.fault}; there are: {', '.join(FAULTS)}")
        if self.script and self.script not in SCRIPTS:
            raise ValueError(f"no job is called {self.script}; there are: {', '.join(SCRIPTS)}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"no layout is called {self.layout}; there are: {', '.join(LAYOUTS)}")
        if self.layout != "data" and self.backend != NCCL:
            raise ValueError(f"the layout {self.layout} is one of the job over nccl")
        if self.fault in (ONLY_GLOO if self.backend == NCCL else ONLY_NCCL):
            raise ValueError(f"the job over {self.backend} cannot have the fault {self.fault}")
        if self.backend == NCCL and self.layout == "grid" and self.ranks % 4:
            raise ValueError(f"{self.ranks} ranks are no grid: it needs a multiple of 4")

    @property
    def ranks_per_node(self) -> int:
        """Ranks, and simulated GPUs and ports, of each node."""
        return self.ranks // self.nodes

    @property
    def job(self) -> str:
        """Name of the training script, in the folder of jobs."""
        if self.backend == NCCL:
            return "nccl/data_parallel" if self.layout == "data" else "nccl/megatron"
        return self.script or ("trainer" if self.fault in _ONLY_BY_HAND else "train")

    @property
    def shape(self) -> tuple[str, ...]:
        """What the command line says of how the ranks share the work."""
        if self.backend != NCCL or self.layout == "data":
            return ()
        return ("--tp", "2", "--pp", "2") if self.layout == "grid" else ("--pp", str(self.ranks))

    @property
    def node_names(self) -> tuple[str, ...]:
        """What the nodes are called."""
        return tuple(f"node{number}" for number in range(self.nodes))
