"""The InfiniBand probe of a session: what was seen and measured, what it proves, and how people read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collectors.probes.infiniband.survey import Direction, SurveyedNode
from collectors.samples.probes import ProbeReport
from hangtop.diagnosis.finding import Finding, Unknown
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured import infiniband, probes
from hangtop.diagnosis.measured.infiniband import Carried, PortSeen
from hangtop.diagnosis.phrasing import count, listed


@dataclass(frozen=True, slots=True)
class FabricSurvey:
    """What one run brought."""

    job: Job
    looked: Mapping[str, SurveyedNode]
    directions: Sequence[Direction]
    absent: Mapping[str, str]
    at: float


@dataclass(frozen=True, slots=True)
class JudgedFabric:
    """What it proves."""

    ports: tuple[PortSeen, ...]
    report: ProbeReport
    findings: tuple[Finding, ...]
    outcome: str
    """``ok``, ``slow`` or ``failed``."""
    summary: str
    unknown: tuple[Unknown, ...]
    """What was not possible, and why."""


def judged(fabric: FabricSurvey, took: float) -> JudgedFabric:
    """Judge a run that took so many seconds."""
    ports = seen_ports(fabric.job, fabric.looked)
    carried = [Carried(one.a, one.b, one.ports, one.gbits, one.error) for one in fabric.directions]
    report = infiniband.report(ports, carried, fabric.absent, fabric.at, took)
    found = infiniband.findings(ports, carried, report)
    summary = found[0].summary if found else report.why or _summary(fabric, len(report.pairs))
    return JudgedFabric(tuple(ports), report, found, probes.outcome(report, found), summary, _unknown(fabric))


def _summary(fabric: FabricSurvey, pairs: int) -> str:
    measured = {name for one in fabric.directions for name in (one.a, one.b)}
    left = sorted(set(fabric.looked) - measured)
    return f"{count(pairs, 'pair')}, all well" + (f"; not measured: {listed(left)}" if left else "")


def seen_ports(job: Job, looked: Mapping[str, SurveyedNode]) -> list[PortSeen]:
    """ibv_devinfo's ports, with the rate that sysfs tells of each."""
    rates = {
        (name, f"{port.facts.device}/{port.facts.port}"): port.facts.rate
        for name, node in job.nodes.items()
        for port in node.ports
    }
    return [
        PortSeen(
            node, f"{one.device}/{one.port}", one.state, one.max_mtu, one.active_mtu, one.sm_lid, one.link_layer,
            rates.get((node, f"{one.device}/{one.port}")),
        )
        for node, some in sorted(looked.items())
        for one in some.ports
    ]  # fmt: skip


def _unknown(fabric: FabricSurvey) -> tuple[Unknown, ...]:
    """What was not possible, and why, the same reasons together."""
    whys: dict[str, set[str]] = {}
    for node, one in fabric.looked.items():
        for why in one.why:
            whys.setdefault(why, set()).add(node)
    for node, why in fabric.absent.items():
        whys.setdefault(why, set()).add(node)
    for direction in fabric.directions:
        for note in direction.notes:
            whys.setdefault(note, set()).update((direction.a, direction.b))
    return tuple(Unknown("infiniband", tuple(sorted(held)), why) for why, held in whys.items())


def lines(ports: Sequence[PortSeen], directions: Sequence[Direction], unknown: Sequence[Unknown]) -> Iterator[str]:
    """The figures as people read them."""
    if ports:
        yield f"{'port':<30}{'state':<14}{'link layer':<13}{'MTU':>6}{'of':>6}{'Gb/s':>7}"
    for port in ports:
        figures = f"{_dash(port.active_mtu):>6}{_dash(port.max_mtu):>6}{_dash(port.rate):>7}"
        yield f"{port.node + ':' + port.name:<30}{port.state:<14}{port.link_layer:<13}{figures}"
    if directions:
        yield f"\n{'direction':<34}{'Gb/s':>9}  by"
    for one in directions:
        speed = "–" if one.gbits is None else f"{one.gbits:.2f}"
        yield f"{one.a + ' → ' + one.b:<34}{speed:>9}  {one.tool}  {one.error}".rstrip()
        if one.ping is not None:
            sent, received, mean = one.ping
            yield f"{'':<34}ibping: {received} of {sent} came back, {_dash(mean)} ms"
        yield from (f"{'':<34}{number}. {hop}" for number, hop in enumerate(one.hops, 1))
    if unknown:
        yield "\nnot possible:"
    for reason in unknown:
        yield f"- {', '.join(reason.nodes)}: {reason.why}"


def _dash(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"
