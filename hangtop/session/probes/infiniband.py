"""The InfiniBand probe of a session: ports, bandwidth of every pair, ibping and ibtracert, by the nodes' own tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from collectors.probes.infiniband import Direction, FabricNode, describe, look, survey
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
    nodes_of,
    text_lines,
    text_or_dash,
)

TITLE = "InfiniBand"


async def infiniband_probe(session: ProbeSession, *, device: str = "", seconds: int = 2) -> Probe:
    """Look what the nodes have; the probe then measures every pair that can be, ``seconds`` of sending a direction."""
    job = session.job()
    nodes, absent = nodes_of(session, job)
    looked = await look(nodes)
    commands = describe(looked, device, seconds)

    async def run(say: Say) -> ProbeResult:
        at, began = time.time(), time.monotonic()
        try:
            directions = await survey(nodes, looked, device=device, seconds=seconds, progress=say)
        except asyncio.CancelledError:
            return cancelled(TITLE)
        return result(job, looked, directions, absent, at, time.monotonic() - began)

    where = tuple(node.name for node in nodes) if commands else ()
    brief = f"{count(len(nodes), 'node')}, every pair in both directions, {seconds} s each, loads the fabric"
    return Probe("Measure InfiniBand", brief, "\n".join(commands), run, LOADS, where)


def result(
    job: Job, looked: Mapping[str, FabricNode], directions: Sequence[Direction], absent: Mapping[str, str], at: float,
    took: float,
) -> ProbeResult:  # fmt: skip
    """What was seen and measured, and what that proves."""
    rates = {
        (name, f"{port.facts.device}/{port.facts.port}"): port.facts.rate
        for name, node in job.nodes.items()
        for port in node.ports
    }
    ports = [
        PortSeen(
            node, one.name, one.state, one.max_mtu, one.active_mtu, one.link_layer,
            rates.get((node, one.name)),
        )
        for node, there in sorted(looked.items())
        for one in there.ports
    ]  # fmt: skip
    carried = [
        probes.MeasuredDirection(one.a, one.b, None if one.gbits is None else one.gbits / 8, one.error, ports=one.ports)
        for one in directions
    ]
    report = infiniband_report(ports, carried, absent, at, took)
    found = infiniband_findings(ports, carried, report)
    left = sorted(set(looked) - {name for one in directions for name in (one.a, one.b)})
    well = f"{count(len(report.pairs), 'pair')}, all well" + (f"; not measured: {listed(left)}" if left else "")
    unknown = _unknown(looked, directions, absent)
    figures = {"backend": "infiniband", "ports": list(map(asdict, ports)), "directions": list(map(asdict, directions))}
    return ProbeResult(
        TITLE, probes.outcome(report, found), found[0].summary if found else report.why or well,
        text_lines(_lines(ports, directions, unknown)), figures, found, unknown,
    )  # fmt: skip


def _unknown(
    looked: Mapping[str, FabricNode], directions: Sequence[Direction], absent: Mapping[str, str]
) -> tuple[Unknown, ...]:
    """What was not possible, and why, the same reasons together."""
    whys: dict[str, set[str]] = {}
    for node, why in [*((node, why) for node, one in looked.items() for why in one.why), *absent.items()]:
        whys.setdefault(why, set()).add(node)
    for direction in directions:
        for note in direction.notes:
            whys.setdefault(note, set()).update((direction.a, direction.b))
    return tuple(Unknown("infiniband", tuple(sorted(nodes)), why) for why, nodes in whys.items())


def _lines(ports: Sequence[PortSeen], directions: Sequence[Direction], unknown: Sequence[Unknown]) -> Iterator[str]:
    if ports:
        yield f"{'port':<30}{'state':<14}{'link layer':<13}{'MTU':>6}{'of':>6}{'Gb/s':>7}"
    for port in ports:
        mtu, most, rate = (text_or_dash(value, "{:g}".format) for value in (port.active_mtu, port.max_mtu, port.rate))
        yield f"{port.node + ':' + port.name:<30}{port.state:<14}{port.link_layer:<13}{mtu:>6}{most:>6}{rate:>7}"
    if directions:
        yield from ("", f"{'direction':<34}{'Gb/s':>9}  by")
    for one in directions:
        speed = text_or_dash(one.gbits, "{:.2f}".format)
        yield f"{one.a + ' → ' + one.b:<34}{speed:>9}  {one.tool}  {one.error}".rstrip()
        yield from (f"{'':<34}{line}" for line in (*one.ping, *one.hops))
    if unknown:
        yield from ("", "not possible:")
    yield from (f"- {', '.join(reason.nodes)}: {reason.why}" for reason in unknown)
