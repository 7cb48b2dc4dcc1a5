"""What packet captures prove: between which nodes TCP had to send again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.measured.probes import LOST_SHARE

LEAST_SEGMENTS = 100
"""Segments of a direction below which a share means nothing."""


@dataclass(frozen=True, slots=True)
class CapturedTraffic:
    """One direction between two machines, as one node's capture saw it, all connections together."""

    node: str
    """Node of the capture."""
    source: str
    target: str
    """Addresses, or the names of nodes where those are known."""
    flows: int
    segments: int
    size: int
    """Bytes of payload, what was sent again included."""
    again: int
    again_size: int
    late: int
    sent_here: bool
    """True when the capturing node is the sender: there a segment that is sent again has been seen before."""

    @property
    def share(self) -> float:
        """Share of the bytes that were sent again, 0 to 1."""
        return self.again_size / self.size if self.size else 0.0


def findings(traffic: Iterable[CapturedTraffic], at: float) -> list[Finding]:
    """packet_loss: a direction whose sender sent more than a share of its bytes again.

    Needs the sender's own capture. A node that all lossy directions share is named alone.
    """
    lossy = [one for one in traffic if one.sent_here and one.segments >= LEAST_SEGMENTS and one.share > LOST_SHARE]
    if not lossy:
        return []
    involved: dict[str, int] = {}
    for one in lossy:
        for name in (one.source, one.target):
            involved[name] = involved.get(name, 0) + 1
    nodes = _shared(involved, len(lossy))
    worst = max(lossy, key=lambda one: one.share)
    return [
        Finding(
            "packet_loss",
            "critical",
            0.85,
            f"packets are lost from {worst.source} to {worst.target}: {worst.share:.1%} of the bytes were sent again",
            nodes=nodes,
            evidence=tuple(
                Evidence(
                    f"tcpdump on {one.node}",
                    at,
                    f"{one.source} to {one.target}: {one.again} of {one.segments} segments and {one.again_size} of "
                    f"{one.size} bytes sent again",
                )
                for one in sorted(lossy, key=lambda one: -one.share)[:6]
            ),
            advice="Look at the cables, ports and switch counters between them (ethtool -S, ip -s link).",
        )
    ]


def _shared(involved: Mapping[str, int], lossy: int) -> tuple[str, ...]:
    """The node that every lossy direction touches, if there is one alone; else all that any touches."""
    every = [name for name, times in involved.items() if times == lossy]
    return tuple(every if len(every) == 1 else sorted(involved))
