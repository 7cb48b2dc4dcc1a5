"""The InfiniBand probe of a session: ports, bandwidth of every pair, ibping and ibtracert, by the nodes' own tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from collectors.probes.infiniband.survey import Direction, SurveyedNode, describe, look, survey
from hangtop.diagnosis.finding import Unknown
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured import probes
from hangtop.diagnosis.measured.network import PortSeen, infiniband_findings, infiniband_report
from hangtop.diagnosis.phrasing import count, listed
from hangtop.session.probes import (
    LOADS,
    Probe,
    ProbeResult,
    ProbeSession,
    Say,
    cancelled,
    path_nodes,
    text_lines,
)

TITLE = "InfiniBand"


async def infiniband_probe(session: ProbeSession, *, device: str = "", seconds: int = 2) -> Probe:
    """Look what the nodes have; the probe then measures every pair that can be, ``seconds`` of sending a direction."""
    job = session.job()
    nodes, absent = path_nodes(session, job)
    looked = await look(nodes)
    commands = describe(looked, device, seconds)

    async def run(say: Say) -> ProbeResult:
        at, began = time.time(), time.monotonic()
        directions: list[Direction] = []
        if commands:
            try:
                directions = await survey(nodes, looked, device=device, seconds=seconds, progress=say)
            except asyncio.CancelledError:
                return cancelled(TITLE)
        return result(job, looked, directions, absent, at, time.monotonic() - began)

    where = tuple(node.name for node in nodes) if commands else ()
    brief = f"{count(len(nodes), 'node')}, every pair in both directions, {seconds} s each, loads the fabric"
    return Probe("Measure InfiniBand", brief, "\n".join(commands), run, LOADS, where)


def result(
    job: Job, looked: Mapping[str, SurveyedNode], directions: Sequence[Direction], absent: Mapping[str, str],
    at: float, took: float,
) -> ProbeResult:  # fmt: skip
    """What was seen and measured, and what that proves."""
    ports = seen_ports(job, looked)
    carried = [
        probes.MeasuredDirection(one.a, one.b, None if one.gbits is None else one.gbits / 8, one.error, ports=one.ports)
        for one in directions
    ]
    report = infiniband_report(ports, carried, absent, at, took)
    found = infiniband_findings(ports, carried, report)
    left = sorted(set(looked) - {name for one in directions for name in (one.a, one.b)})
    well = f"{count(len(report.pairs), 'pair')}, all well" + (f"; not measured: {listed(left)}" if left else "")
    unknown = _unknown(looked, directions, absent)
    figures = {
        "backend": "infiniband", "ports": [asdict(port) for port in ports],
        "directions": [asdict(one) for one in directions],
    }  # fmt: skip
    return ProbeResult(
        TITLE, probes.outcome(report, found), found[0].summary if found else report.why or well,
        text_lines(_lines(ports, directions, unknown)), figures, found, unknown,
    )  # fmt: skip


def seen_ports(job: Job, looked: Mapping[str, SurveyedNode]) -> list[PortSeen]:
    """ibv_devinfo's ports, with the rate that sysfs tells of each."""
    rates = {
        (name, f"{port.facts.device}/{port.facts.port}"): port.facts.rate
        for name, node in job.nodes.items()
        for port in node.ports
    }
    return [
        PortSeen(
            node, f"{one.device}/{one.port}", one.state, one.max_mtu, one.active_mtu, one.link_layer,
            rates.get((node, f"{one.device}/{one.port}")),
        )
        for node, some in sorted(looked.items())
        for one in some.ports
    ]  # fmt: skip


def _unknown(
    looked: Mapping[str, SurveyedNode], directions: Sequence[Direction], absent: Mapping[str, str]
) -> tuple[Unknown, ...]:
    """What was not possible, and why, the same reasons together."""
    whys: dict[str, set[str]] = {}
    for node, why in [*((node, why) for node, one in looked.items() for why in one.why), *absent.items()]:
        whys.setdefault(why, set()).add(node)
    for direction in directions:
        for note in direction.notes:
            whys.setdefault(note, set()).update((direction.a, direction.b))
    return tuple(Unknown("infiniband", tuple(sorted(held)), why) for why, held in whys.items())


def _lines(ports: Sequence[PortSeen], directions: Sequence[Direction], unknown: Sequence[Unknown]) -> Iterator[str]:
    if ports:
        yield f"{'port':<30}{'state':<14}{'link layer':<13}{'MTU':>6}{'of':>6}{'Gb/s':>7}"
    for port in ports:
        figures = f"{_dash(port.active_mtu):>6}{_dash(port.max_mtu):>6}{_dash(port.rate):>7}"
        yield f"{port.node + ':' + port.name:<30}{port.state:<14}{port.link_layer:<13}{figures}"
    if directions:
        yield from ("", f"{'direction':<34}{'Gb/s':>9}  by")
    for one in directions:
        speed = "–" if one.gbits is None else f"{one.gbits:.2f}"
        yield f"{one.a + ' → ' + one.b:<34}{speed:>9}  {one.tool}  {one.error}".rstrip()
        if one.ping is not None:
            sent, received, mean = one.ping
            yield f"{'':<34}ibping: {received} of {sent} came back, {_dash(mean)} ms"
        yield from (f"{'':<34}{number}. {hop}" for number, hop in enumerate(one.hops, 1))
    if unknown:
        yield from ("", "not possible:")
    for reason in unknown:
        yield f"- {', '.join(reason.nodes)}: {reason.why}"


def _dash(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"
