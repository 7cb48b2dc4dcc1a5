"""The InfiniBand probe of a session: ports, bandwidth of every pair, ibping and ibtracert, by the nodes' own tools."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from collectors.probes.infiniband import FabricNode, FabricSurvey, describe, look
from collectors.samples.probes import IbDirection, IbPort, ProbeReport
from hangtop.diagnosis.finding import Unknown
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured.probes import infiniband_findings, report_of
from hangtop.diagnosis.phrasing import count, listed
from hangtop.session.probes import (
    LOADS,
    Probe,
    ProbeResult,
    Say,
    measured,
    nodes_of,
    table,
    text_or_dash,
)
from hangtop.session.session import Session

TITLE = "InfiniBand"
PORTS = ("port", "state", "link layer", "largest MTU", "MTU")
DIRECTIONS = ("direction", "Gb/s", "")


async def infiniband_probe(session: Session, *, seconds: int = 2) -> Probe:
    """Look what the nodes have; the probe then measures every pair that can be, ``seconds`` of sending a direction."""
    job = session.job()
    nodes, absent = nodes_of(session, job)
    looked = await look(nodes)
    commands = describe(looked, seconds)

    async def run(say: Say) -> ProbeResult:
        at, began = time.time(), time.monotonic()
        survey = FabricSurvey(nodes, looked, seconds)
        await survey.run(say)
        with_ports = [name for name, one in looked.items() if one.ports]
        report = report_of("infiniband", survey.pairs, with_ports, absent, at, time.monotonic() - began)
        return result(job, looked, list(survey.directions.values()), report)

    where = tuple(node.name for node in nodes) if commands else ()
    brief = f"{count(len(nodes), 'node')}, every pair in both directions, {seconds} s each, loads the fabric"
    return Probe("Measure InfiniBand", brief, "\n".join(commands), run, LOADS, where)


def result(
    job: Job, looked: Mapping[str, FabricNode], directions: Sequence[IbDirection], report: ProbeReport
) -> ProbeResult:
    """What was seen and measured, and what that proves."""
    if not report.pairs and not report.why:
        report = report._replace(outcome="failed", why="nothing could be measured")
    ports = [port for _, there in sorted(looked.items()) for port in there.ports]
    found = infiniband_findings(job, directions, report)
    left = sorted(set(looked) - {name for one in directions for name in (one.a, one.b)})
    well = f"{count(len(report.pairs), 'pair')}, all well" + (f"; not measured: {listed(left)}" if left else "")
    unknown = tuple(_unknown(looked, directions, report))
    figures = {
        "backend": "infiniband", "ports": [port._asdict() for port in ports],
        "directions": [one._asdict() for one in directions],
    }  # fmt: skip
    return measured(TITLE, report, found, well, _lines(ports, directions), figures, unknown)


def _unknown(
    looked: Mapping[str, FabricNode], directions: Sequence[IbDirection], report: ProbeReport
) -> Iterator[Unknown]:
    """What was not possible, and why, the same reasons together."""
    told = [*((node, why) for node, one in looked.items() for why in one.why)]
    told += [(rank.node, rank.why) for rank in report.ranks if rank.state == "absent"]
    told += [(node, note) for one in directions for note in one.notes for node in (one.a, one.b)]
    for why in dict.fromkeys(why for _, why in told):
        yield Unknown("infiniband", tuple(sorted({node for node, reason in told if reason == why})), why)


def _lines(ports: Sequence[IbPort], directions: Sequence[IbDirection]) -> Iterator[str]:
    yield from table(PORTS, [
        (f"{one.node}:{one.name}", one.state, one.link_layer, str(one.max_mtu), str(one.active_mtu)) for one in ports
    ])  # fmt: skip
    yield from table(DIRECTIONS, [
        (f"{one.a} → {one.b}", text_or_dash(one.gbits, "{:.2f}".format), one.error) for one in directions
    ])  # fmt: skip
    yield from (f"{one.a} → {one.b}  {line}" for one in directions for line in one.shown)
