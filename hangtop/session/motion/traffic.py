"""What a node exchanges with others, as a sign that its ranks' collectives go on.

Ranks exchange: what goes out comes in. A checkpoint that is written, a data set that is read and our own channel go one
way or are small. So the smaller of the two directions counts, and it must be of the order that this job needs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from hangtop.diagnosis.node import Node, Port

SHARE, FLOOR = 0.1, 10e6
"""Part of the most that this node was seen to exchange, and bytes per second each way, that traffic of a job has."""
APART = 1.0
"""Seconds by which the counters of a node's ports are told apart in one look; older ones have stood still since."""
LOCAL = ("loopback",)
"""Kinds of interfaces that no other node is behind: over them all programs of a node talk to one another."""


@dataclass(slots=True)
class Traffic:
    """Follows what one node exchanges."""

    most: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Way → the most bytes per second, each way, that were seen."""
    told: dict[str, float] = field(default_factory=dict)
    """Way → when its counters were told last: those that stand still are not told again."""
    way: str = ""
    """Over what there was traffic of the job's order last, …"""
    rate: float = 0.0
    """… and how many bytes per second each way."""

    def look(self, node: Node) -> float | None:
        """Look at a node's counters; when it was seen anew to exchange what this job needs, if it was."""
        seen: list[tuple[float, str, float]] = []
        for way, (at, rate) in _rates(node).items():
            before, self.told[way] = self.told.get(way), at
            if at != before:
                self.most[way] = most = max(rate, self.most[way])
                if rate >= max(FLOOR, SHARE * most):
                    # what came to less than the most since the counters were told before may have ended soon after
                    seen.append((rate, way, at - (at - (before or at)) * (1.0 - rate / most)))
        if not seen:
            return None
        self.rate, self.way, _ = max(seen)
        return max(at for _, _, at in seen)


def _rates(node: Node) -> dict[str, tuple[float, float]]:
    """Way → when its counters were told, and bytes per second that went each way up to then."""
    rates: dict[str, tuple[float, float]] = {}
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


def _exchanged(port: Port) -> float:
    sent, received = port.rate("port_xmit_data"), port.rate("port_rcv_data")
    return 0.0 if sent is None or received is None else min(sent, received)
