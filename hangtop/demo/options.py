"""Options and faults of a demo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hangtop.demo.job.faults import FAULTS as JOB_FAULTS

DEVICE_FAULTS: Final[Mapping[str, tuple[str, str]]] = {
    "gpu-lost": ("gpu{local} lost", "a GPU falls off the bus"),
    "gpu-throttled": ("gpu{local} throttled", "a GPU is slowed down by heat"),
    "driver-hung": ("driver wedged", "nvidia-smi no longer answers"),
    "port-down": ("port{local} down", "an InfiniBand port is down"),
}
"""Faults of simulated devices: the fault planted on the culprit's node, and a description."""

FAULTS: Final[Mapping[str, str]] = {**JOB_FAULTS, **{name: what for name, (_, what) in DEVICE_FAULTS.items()}}
"""Every fault of a demo, with a description."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of one demo. Times are seconds."""

    nodes: int = 2
    ranks: int = 4
    fault: str = ""
    fault_rank: int = 1
    after: float = 15.0
    """Time from the first step of training to the fault."""

    def __post_init__(self) -> None:
        """Raise :class:`ValueError` with one line for impossible options."""
        if self.ranks % self.nodes:
            raise ValueError(f"{self.ranks} ranks cannot be shared evenly by {self.nodes} nodes")
        if not 0 <= self.fault_rank < self.ranks:
            raise ValueError(f"there is no rank {self.fault_rank} among {self.ranks}")
        if self.fault and self.fault not in FAULTS:
            raise ValueError(f"no fault is called {self.fault}; there are: {', '.join(FAULTS)}")

    @property
    def ranks_per_node(self) -> int:
        """Number of ranks, of simulated GPUs and of ports per node."""
        return self.ranks // self.nodes

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return tuple(f"node{number}" for number in range(self.nodes))
