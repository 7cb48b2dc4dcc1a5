"""What a node exchanges with others, as a sign that its ranks' collectives go on.

Ranks exchange: what goes out comes in. A checkpoint that is written, a data set that is read and our own channel go one
way or are small. So the smaller of the two directions counts, and it must be of the order that this job needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from hangtop.session.state.job_state import NodeState, PortState

SHARE = 0.1
"""Of what is usual for this node: less is no training."""
FLOOR = {"the network": 20e6, "InfiniBand": 10e6, "RoCE": 10e6, "NVLink": 10e6}
"""Bytes per second that are traffic of a job as long as nobody knows what is usual for it."""
LEAST = 1e6
"""Bytes per second: keepalives, metrics and our own channel stay below, whatever is usual."""
HALF_LIFE = 600.0
"""Seconds in which a usual rate that is no longer seen is half forgotten."""
APART = 1.0
"""Seconds by which the counters of a node's ports are told apart in one look; older ones have stood still since."""
LOCAL = ("loopback",)
"""Kinds of interfaces that no other node is behind: over them all programs of a node talk to one another."""


Told: TypeAlias = tuple[float, float]
"""When counters were told, and how many bytes per second went each way up to then."""


@dataclass(slots=True)
class Traffic:
    """Follows what one node exchanges."""

    usual: dict[str, float] = field(default_factory=dict)
    """Way → bytes per second, each way, that were usual."""
    looked_at: float | None = None
    links: tuple[float, float] | None = None
    """When NVLink's counters were last seen to move, and their sum."""
    told: dict[str, float] = field(default_factory=dict)
    """Way → when its counters were told last: those that stand still are not told again."""
    at: float | None = None
    """When there was traffic of the job's order last, …"""
    way: str = ""
    """… over what, …"""
    rate: float = 0.0
    """… and how many bytes per second each way."""

    def look(self, node: NodeState, at: float) -> float | None:
        """Look at a node's counters as of ``at``; when it was seen anew to exchange what this job needs, if it was."""
        passed, self.looked_at = max(0.0, at - (self.looked_at or at)), at
        moved: float | None = None
        for way, (told, rate) in {**_rates(node), **self._linked(node, at)}.items():
            usual = self.usual.get(way, 0.0) * 0.5 ** (passed / HALF_LIFE)
            before, self.told[way] = self.told.get(way), told
            if told == before:
                self.usual[way] = usual
                continue
            self.usual[way] = usual = max(rate, usual)
            if rate >= (max(LEAST, SHARE * usual) if usual >= FLOOR[way] else FLOOR[way]):
                # What came to less than usual since the counters were told before may have ended soon after that.
                ended = told - (told - (told if before is None else before)) * (1.0 - rate / usual)
                if moved is None or rate > self.rate:
                    self.at, self.way, self.rate = ended, way, rate
                moved = ended if moved is None else max(moved, ended)
        return moved

    def _linked(self, node: NodeState, at: float) -> dict[str, Told]:
        """The same over NVLink since its counters last moved."""
        sums = [link.sent or 0 for gpu in node.gpus.values() for link in gpu.nvlinks.values()]
        if not sums:
            return {}
        total, before = float(sum(sums)), self.links
        if before is not None and (total == before[1] or at <= before[0]):
            return {}
        self.links = at, total
        return {} if before is None or total < before[1] else {"NVLink": (at, (total - before[1]) / (at - before[0]))}


def _rates(node: NodeState) -> dict[str, Told]:
    """What went each way, by what it went over."""
    rates: dict[str, Told] = {}
    for interface in node.interfaces.values():
        sent, received = interface.sent_per_s, interface.received_per_s
        if sent is not None and received is not None and interface.facts.kind not in LOCAL:
            # A bridge and the interface behind it count the same bytes.
            before = rates.get("the network", (interface.at, 0.0))
            rates["the network"] = max(before[0], interface.at), max(before[1], min(sent, received))
    newest = max((port.at for port in node.ports.values()), default=0.0)
    for port in node.ports.values():
        if newest - port.at <= APART:
            way = "RoCE" if port.facts.link_layer == "Ethernet" else "InfiniBand"
            rates[way] = newest, rates.get(way, (newest, 0.0))[1] + _exchanged(port)
    return rates


def _exchanged(port: PortState) -> float:
    sent, received = port.rate("port_xmit_data"), port.rate("port_rcv_data")
    return 0.0 if sent is None or received is None else min(sent, received)
