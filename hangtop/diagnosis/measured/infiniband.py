"""What the InfiniBand probe proves: ports that are down or narrow, links and nodes under what their ports can carry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collectors.samples.probes import ProbePair, ProbeRank, ProbeReport
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.measured import probes
from hangtop.diagnosis.phrasing import listed

GOOD_SHARE = 0.8
"""Of a port's rate that one connection of ib_write_bw should reach: trusted preflight scripts ask for 0.9 to 0.95 of
it with tuned settings; without them less is no proof of a fault."""


@dataclass(frozen=True, slots=True)
class PortSeen:
    """A port as ibv_devinfo told of it."""

    node: str
    name: str
    """``mlx5_0/1``."""
    state: str
    max_mtu: int | None
    active_mtu: int | None
    sm_lid: int | None
    link_layer: str
    rate: float | None
    """Gb/s, from sysfs."""


@dataclass(frozen=True, slots=True)
class Carried:
    """One direction between two nodes."""

    a: str
    b: str
    ports: tuple[str, str]
    gbits: float | None
    error: str


def report(
    ports: Sequence[PortSeen], carried: Sequence[Carried], absent: Mapping[str, str], at: float, took: float
) -> ProbeReport:
    """The figures as pairs, so that the same reasoning tells a bad node from a bad link as for collectives.

    ``absent`` are nodes that did not answer, with the reason; one without tools or adapters is merely not measured.
    """
    both: dict[tuple[str, str], list[Carried]] = {}
    for one in carried:
        low, high = sorted((one.a, one.b))
        both.setdefault((low, high), []).append(one)
    pairs = []
    for (a, b), some in sorted(both.items()):
        known = [one.gbits for one in some if one.gbits is not None]
        errors = "; ".join(f"{one.a} to {one.b}: {one.error}" for one in some if one.error)
        pairs.append(ProbePair(a, b, min(known) / 8 if len(known) == len(some) else None, None, None, errors))
    names = sorted({port.node for port in ports} | {name for key in both for name in key})
    ranks = [ProbeRank(-1, name, "done", "", None) for name in names]
    ranks += [ProbeRank(-1, name, "absent", why, None) for name, why in sorted(absent.items())]
    failed = [*(pair.error for pair in pairs if pair.error), *absent.values()]
    why = failed[0] if failed else "" if pairs else "nothing could be measured"
    return ProbeReport("infiniband", len(names), at, took, "failed" if why else "done", why, ranks, [], pairs, None, {})


def findings(ports: Sequence[PortSeen], carried: Sequence[Carried], found: ProbeReport) -> tuple[Finding, ...]:
    """Everything that is wrong, what explains the rest first."""
    paired = probes.findings(found)
    blamed = {node for finding in paired for node in finding.nodes}
    return (*_down(ports, found.at), *paired, *_low(ports, carried, blamed, found.at), *_mtu(ports, found.at))


def _down(ports: Sequence[PortSeen], at: float) -> Iterator[Finding]:
    """ib_port_down: a port that is not active while the port of the same name is on other nodes."""
    up = {port.name for port in ports if port.state == "PORT_ACTIVE"}
    for port in ports:
        if port.state == "PORT_ACTIVE" or not port.state or port.name not in up:
            continue
        unmanaged = port.state == "PORT_INIT" and not port.sm_lid
        why = "; no subnet manager has seen it" if unmanaged else ""
        yield Finding(
            "ib_port_down", "critical", 0.85,
            f"{port.name} on {port.node} is {port.state}, on other nodes it is active{why}",
            nodes=(port.node,), ports=(f"{port.node}:{port.name}",),
            evidence=(
                Evidence(f"ibv_devinfo on {port.node}", at, f"{port.name}: state {port.state}, sm_lid {port.sm_lid}"),
            ),
            advice="Look for a running subnet manager (sminfo, systemctl status opensm)." if unmanaged else
            "Check the cable, and the switch port at its far end.",
        )  # fmt: skip


def _low(ports: Sequence[PortSeen], carried: Sequence[Carried], blamed: set[str], at: float) -> Iterator[Finding]:
    """bandwidth_low: directions far under the rate of their narrower port, where no node or link explains it."""
    rates = {(port.node, port.name): port.rate for port in ports}
    low: list[tuple[Carried, float]] = []
    for one in carried:
        ends = [rates.get(end) for end in zip((one.a, one.b), one.ports, strict=True)]
        known = [rate for rate in ends if rate]
        if blamed & {one.a, one.b}:
            continue
        if len(known) == 2 and one.gbits is not None and one.gbits < GOOD_SHARE * min(known):
            low.append((one, min(known)))
    if not low:
        return
    involved = Counter(name for one, _ in low for name in (one.a, one.b))
    every = [name for name, times in involved.items() if times == len(low)]
    nodes = tuple(every if len(every) == 1 else sorted(involved))
    worst, rate = min(low, key=lambda pair: (pair[0].gbits or 0.0) / pair[1])
    yield Finding(
        "bandwidth_low", "warning", 0.7,
        f"{worst.a} to {worst.b}: {worst.gbits:.4g} Gb/s over ports of {rate:g} Gb/s", nodes=nodes,
        evidence=tuple(
            Evidence("perftest", at, f"{_way(one)}: {one.gbits:.4g} Gb/s of {of:g}")
            for one, of in low[:6]
        ),
        advice="Look at the PCIe link of the adapter (width and speed), at the NUMA node that the test ran on, and at "
        "what else uses the fabric.",
    )  # fmt: skip


def _way(one: Carried) -> str:
    return f"{one.a}:{one.ports[0]} to {one.b}:{one.ports[1]}"


def _mtu(ports: Sequence[PortSeen], at: float) -> Iterator[Finding]:
    """mtu_mismatch: active ports of one name and link layer whose active MTU differs from most."""
    active = [port for port in ports if port.state == "PORT_ACTIVE" and port.active_mtu is not None]
    for name, layer in sorted({(port.name, port.link_layer) for port in active}):
        same = [port for port in active if (port.name, port.link_layer) == (name, layer)]
        usual = Counter(port.active_mtu for port in same).most_common(1)[0][0]
        odd = [port for port in same if port.active_mtu != usual]
        if odd:
            told = listed([f"{port.active_mtu} on {port.node}" for port in odd])
            yield Finding(
                "mtu_mismatch", "warning", 0.8, f"active MTU of {name} is {told}, elsewhere {usual}",
                nodes=tuple(port.node for port in odd), ports=tuple(f"{port.node}:{name}" for port in odd),
                evidence=tuple(
                    Evidence(f"ibv_devinfo on {p.node}", at, f"{name}: active_mtu {p.active_mtu}, max_mtu {p.max_mtu}")
                    for p in same[:6]
                ),
                advice="Set one MTU: in the subnet manager's partition (InfiniBand), on interface and switch (RoCE).",
            )  # fmt: skip
