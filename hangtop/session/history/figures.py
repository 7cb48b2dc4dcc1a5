"""The figures of a job at one moment: those of each node, and their sums."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hangtop.session.state.job_state import NodeState

LOCAL = ("loopback",)
"""Kinds of interfaces behind which no other node is."""


class NodeFigures(NamedTuple):
    """What one node has of each. None: it has no such thing, or did not tell yet."""

    moving: float | None = None
    """Ranks that moved, …"""
    alive: float | None = None
    """… of so many that live and are in view."""
    power: float | None = None
    """Watts of all GPUs."""
    used: float | None = None
    """Sum of the utilisation of …"""
    gpus: float | None = None
    """… so many GPUs, per cent."""
    gpu_memory: float | None = None
    """Bytes in use on all GPUs."""
    memory: float | None = None
    """Bytes that the processes of all ranks hold in their nodes' memory."""
    ports: float | None = None
    """Bytes a second that all HCA ports send."""
    network: float | None = None
    """The same of network interfaces; of a bridge and what is behind it the busier."""
    retransmitted: float | None = None
    """TCP segments a second that were sent again."""


NAMES = ("verdict", "moving", "alive", "steps", "power", "utilisation", "gpu_memory", "memory", "ports", "network",
         "retransmitted")  # fmt: skip
"""Figures of a job: those of its parts, with the mean utilisation, the steps a second, and the place of the verdict's
word in :data:`hangtop.session.history.history.WORDS`."""


def part_of(node: NodeState, moving: int, alive: int) -> NodeFigures:
    """Figures of one node that answers."""
    power = memory = used = 0.0
    rows = powered = gpus = 0
    for gpu in node.gpus.values():
        row = gpu.looks.newest
        if row is None or gpu.fault is not None:
            continue
        rows += 1
        memory += row.memory_used or 0
        if row.power is not None:
            power += row.power
            powered += 1
        if row.utilization is not None:
            used += row.utilization
            gpus += 1
    pulses = [rank.looks.newest for rank in node.ranks.values() if rank.gone_at is None]
    sent = [rate for port in node.ports.values() if (rate := port.rate("port_xmit_data")) is not None]
    busiest = [
        each.sent_per_s
        for each in node.interfaces.values()
        if each.sent_per_s is not None and each.facts.kind not in LOCAL
    ]
    return NodeFigures(
        moving=moving if alive else None,
        alive=alive or None,
        power=power if powered else None,
        used=used if gpus else None,
        gpus=gpus or None,
        gpu_memory=memory if rows else None,
        memory=float(sum(pulse.rss for pulse in pulses if pulse is not None)) if any(pulses) else None,
        ports=sum(sent) if sent else None,
        network=max(busiest, default=None),
        retransmitted=node.retransmitted_per_s,
    )


def summed(parts: Iterable[NodeFigures]) -> dict[str, float | None]:
    """The sums of all parts by their names, None where no part has any; with the mean utilisation of all GPUs."""
    found: dict[str, float | None] = dict.fromkeys(NodeFigures._fields)
    for name, column in zip(NodeFigures._fields, zip(*parts, strict=True), strict=False):
        known = [value for value in column if value is not None]
        found[name] = sum(known) if known else None
    used, gpus = found.pop("used"), found.pop("gpus")
    found["utilisation"] = used / gpus if used is not None and gpus else None
    return found
