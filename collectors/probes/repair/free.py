"""Chooses a rendezvous port that is free on every node, and tells why the obvious ones are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from collectors.probes.repair.remote.words import PortsInUse

FIRST = 29500
"""torchrun's own default (torch.distributed.run)."""
_RANGES = (
    range(FIRST, 29_900), range(20_000, 29_500), range(61_000, 65_500), range(10_000, 20_000), range(1_024, 10_000),
)  # fmt: skip
"""Where to look, the usual neighbourhood first; ports under 1024 need root."""


@dataclass(frozen=True, slots=True)
class FreePort:
    """A port, and what was found out about those before it."""

    port: int | None
    """None when there is none, or no node could be asked."""
    outside: bool
    """True when no node's kernel gives it to a client meanwhile (it is outside ip_local_port_range, or reserved)."""
    passed: tuple[str, ...]
    """Why ports that come first in order were passed over, as ``29500: in use on node1``; the first few."""


def choose(nodes: Mapping[str, PortsInUse], wanted: int = FIRST, *, most_passed: int = 6) -> FreePort:
    """Choose the first port from ``wanted`` on that is free on all nodes, where possible one that no client gets."""
    answers = {name: found for name, found in sorted(nodes.items()) if not found.error}
    if not answers:
        return FreePort(None, False, ())
    used = {name: set(found.ports) for name, found in answers.items()}
    ephemeral = {name: _ephemeral(found) for name, found in answers.items()}
    passed: list[str] = []
    inside: int | None = None
    for port in _candidates(wanted):
        holders = [name for name in answers if port in used[name]]
        risky = [name for name in answers if port in ephemeral[name]]
        if not holders and not risky:
            return FreePort(port, True, tuple(passed))
        if not holders and inside is None:
            inside = port
        if len(passed) < most_passed:
            why = f"in use on {', '.join(holders)}" if holders else f"given to clients on {', '.join(risky)}"
            passed.append(f"{port}: {why}")
    return FreePort(inside, False, tuple(passed))


def _candidates(wanted: int) -> Iterator[int]:
    yield from range(wanted, min(wanted + 100, 65_536))
    for ports in _RANGES:
        yield from (port for port in ports if not wanted <= port < wanted + 100)


def _ephemeral(found: PortsInUse) -> set[int]:
    """Ports that the node's kernel gives to clients that ask for none."""
    reserved = {port for low, high in reserved_ranges(found.reserved) for port in range(low, high + 1)}
    return set(range(max(0, found.lowest), min(found.highest, 65_535) + 1)) - reserved


def reserved_ranges(text: str) -> list[tuple[int, int]]:
    """Ranges of net.ipv4.ip_local_reserved_ports, ``29500-29510,30000``; what is no range is passed over."""
    ranges = []
    for word in text.split(","):
        low, _, high = word.strip().partition("-")
        high = high or low
        if low.isascii() and low.isdecimal() and high.isascii() and high.isdecimal() and len(low + high) < 12:
            ranges.append((min(int(low), 65_535), min(int(high), 65_535)))
    return ranges
