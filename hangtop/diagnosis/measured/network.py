"""What the path and InfiniBand probes prove beside their pairs: bandwidths and MTUs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from collectors.samples.asked import PathFigure
from collectors.samples.probes import IbDirection, IbPort, ProbeReport
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured import probes
from hangtop.diagnosis.phrasing import listed

MTU_ADVICE = (
    "Set one MTU on every hop: ip link set DEV mtu N on the nodes and on the switch ports between them; on InfiniBand "
    "in the subnet manager's partition."
)
GOOD_SHARE = 0.8
"""Of a port's rate that one connection of ib_write_bw should reach: trusted preflight scripts ask for 0.9 to 0.95 of
it with tuned settings; without them less is no proof of a fault."""


def path_findings(figures: Sequence[PathFigure], report: ProbeReport) -> tuple[Finding, ...]:
    """Everything that the figures prove, what explains the rest first."""
    return (*probes.findings(report), *_path_mtu(figures, report.at))


def _path_mtu(figures: Sequence[PathFigure], at: float) -> Iterator[Finding]:
    """mtu_mismatch: packets of the sender's own MTU do not arrive."""
    narrow = [f for f in figures if f.mtu is not None and f.local_mtu is not None and f.mtu < f.local_mtu]
    if not narrow:
        return
    involved = Counter(name for figure in narrow for name in {figure.a, figure.b})
    most = max(involved.values())
    # With one pair alone nobody can tell which end it is; with more, the one that all of them share.
    nodes = tuple(sorted(name for name, number in involved.items() if number == most))
    worst = min(narrow, key=lambda figure: figure.mtu or 0)
    yield Finding(
        "mtu_mismatch", "critical", 0.9,
        f"packets over {worst.mtu} bytes do not reach or leave {', '.join(nodes)}, while {worst.a} sends up to "
        f"{worst.local_mtu}",
        nodes=nodes,
        evidence=tuple(
            Evidence(
                Observer.PROBE, "path probe", at,
                f"{f.a} to {f.b}: {f.mtu} bytes arrive, {f.interface} has MTU {f.local_mtu}"
            )
            for f in narrow[:6]
        ),
        advice=MTU_ADVICE,
    )  # fmt: skip


def _odd_mtu(at: float, rows: Sequence[tuple[str, str, int]]) -> Iterator[Finding]:
    """mtu_mismatch: nodes, their ports and MTUs, of which most have one MTU and some another."""
    usual = Counter(mtu for _, _, mtu in rows).most_common(1)
    odd = [row for row in rows if row[2] != usual[0][0]]
    if odd:
        yield Finding(
            "mtu_mismatch", "warning", 0.8,
            f"MTU differs: {listed([f'{mtu} on {node} {device}' for node, device, mtu in odd])}, "
            f"elsewhere {usual[0][0]}",
            nodes=tuple(sorted({node for node, _, _ in odd})),
            ports=tuple(f"{node}:{device}" for node, device, _ in odd),
            evidence=tuple(Evidence(
                Observer.PROBE, "ibv_devinfo", at, f"{node}: {device} has MTU {mtu}"
            ) for node, device, mtu in rows[:6]),
            advice=MTU_ADVICE,
        )  # fmt: skip


def infiniband_findings(
    job: Job, ports: Sequence[IbPort], carried: Sequence[IbDirection], report: ProbeReport
) -> tuple[Finding, ...]:
    """Everything that is wrong, what explains the rest first."""
    paired = probes.findings(report)
    blamed = {node for finding in paired for node in finding.nodes}
    active: dict[tuple[str, str], list[tuple[str, str, int]]] = defaultdict(list)
    for port in ports:
        if port.state == "PORT_ACTIVE" and port.active_mtu:
            active[port.name, port.link_layer].append((port.node, port.name, port.active_mtu))
    mtus = [finding for _, rows in sorted(active.items()) for finding in _odd_mtu(report.at, rows)]
    well = [one for one in carried if not blamed & {one.a, one.b}]
    return (*paired, *_low(job, well, report.at), *mtus)


def _low(job: Job, carried: Sequence[IbDirection], at: float) -> Iterator[Finding]:
    """bandwidth_low: directions far under the rate of their narrower port, as sysfs of the two nodes tells it."""
    rates = {
        (name, f"{port.facts.device}/{port.facts.port}"): port.facts.rate
        for name, node in job.nodes.items()
        for port in node.ports.values()
    }
    low: list[tuple[float, float, IbDirection]] = []
    for one in carried:
        rate = min(rates.get((one.a, one.port_a)) or 0.0, rates.get((one.b, one.port_b)) or 0.0)
        if one.gbits is not None and one.gbits < GOOD_SHARE * rate:
            low.append((one.gbits, rate, one))
    if not low:
        return
    gbits, rate, worst = min(low, key=lambda row: row[0] / row[1])
    yield Finding(
        "bandwidth_low", "warning", 0.7, f"{worst.a} to {worst.b}: {gbits:.4g} Gb/s over ports of {rate:g} Gb/s",
        nodes=tuple(sorted({name for _, _, one in low for name in (one.a, one.b)})),
        evidence=tuple(
            Evidence(
                Observer.PROBE, "perftest", at,
                f"{one.a}:{one.port_a} to {one.b}:{one.port_b}: {has:.4g} Gb/s of {of:g}"
            )
            for has, of, one in low[:6]
        ),
        advice="Look at the PCIe link of the adapter (width and speed), at the NUMA node that the test ran on, and at "
        "what else uses the fabric.",
    )  # fmt: skip
