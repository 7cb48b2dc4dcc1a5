"""Probes between every two nodes: the network path, and InfiniBand by the nodes' own tools."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from collectors.probes import infiniband, path, tools
from collectors.samples.probes import Observation, PathFigure, ProbeReport
from hangtop.diagnosis.finding import Finding, Unknown
from hangtop.diagnosis.firewall import with_firewall
from hangtop.diagnosis.phrasing import count, folded_names, listed
from hangtop.diagnosis.probes import findings, outcome, path_findings, report_of
from hangtop.session.probes import Probe, ProbeRefused, ProbeResult, Say, nodes_of, table, unknowns
from hangtop.session.session import Session

LOADS = "The probe loads the network of these nodes for some seconds."
PATHS = ("path", "connect µs", "round trip µs", "MTU", "GB/s", "resent", "by")
PORTS = ("port", "state", "link layer", "largest MTU", "MTU")


def measured(
    title: str, report: ProbeReport, found: Sequence[Finding], well: str, lines: Iterable[str],
    figures: Mapping[str, Any], unknown: Iterable[Unknown] = (),
) -> ProbeResult:  # fmt: skip
    """The result of a probe between nodes; ``well`` is the summary if nothing is wrong."""
    summary = found[0].summary if found else report.why or well
    return ProbeResult(title, outcome(report, found), summary, tuple(lines), figures, tuple(found), tuple(unknown))


def path_probe(session: Session, *, seconds: float = 0.5) -> Probe:
    """Measure connect time, MTU, loss and throughput in each direction, with iperf3 if both nodes have it.

    Raises :class:`ProbeRefused` for a single node.
    """
    job = session.job()
    nodes, absent = nodes_of(session, job)
    if len(job.nodes) < 2:
        raise ProbeRefused("a path has two ends: name two nodes")

    async def run(say: Say) -> ProbeResult:
        at, began = time.time(), time.monotonic()
        say("tools and firewalls")
        answers = await tools.look(nodes, ["iperf3"], firewalls=True)
        survey = path.PathSurvey(nodes, seconds, {name for name in answers if tools.found(answers[name])})
        await survey.run(say)
        names, missing = [node.name for node in nodes], {**absent, **survey.absent}
        report = report_of("path", survey.pairs, names, missing, at, time.monotonic() - began)
        return path_result(list(survey.figures.values()), report, answers)

    brief = f"{count(len(job.nodes), 'node')}, MTU, loss and throughput between all of them, about 5 s"
    command = f"on {folded_names(sorted(job.nodes))}:\n{path.describe()}"
    where = tuple(node.name for node in nodes)
    return Probe("Path probe", f"{brief}, loads the network", command, run, LOADS, where)


def path_result(
    figures: Sequence[PathFigure], report: ProbeReport, answers: Mapping[str, Sequence[Observation]]
) -> ProbeResult:
    """The result for the figures; ``answers`` is node → observations, which include active firewalls."""
    found = [with_firewall(finding, answers, report.at) for finding in path_findings(figures, report)]
    return measured(
        f"Path probe, {count(report.world_size, 'node')}, {report.took:.1f} s", report, found,
        f"{count(len(report.pairs), 'pair')}, all well", table(PATHS, map(_path_row, sorted(figures))),
        {"backend": "path", "world_size": report.world_size, "paths": [one._asdict() for one in figures]},
    )  # fmt: skip


def _path_row(figure: PathFigure) -> tuple[str, ...]:
    return (
        f"{figure.a} → {figure.b}", _text(figure.connect, "{:.0f}", 1e6), _text(figure.round_trip, "{:.0f}", 1e6),
        _text(figure.mtu, "{:g}"), _text(figure.throughput, "{:.3f}", 1e-9), _text(figure.retransmitted, "{:.2%}"),
        figure.error or figure.method,
    )  # fmt: skip


def _text(value: float | None, form: str, unit: float = 1.0) -> str:
    """A figure as text; a dash if it was not measured."""
    return "–" if value is None else form.format(value * unit)


async def infiniband_probe(session: Session, *, seconds: int = 2) -> Probe:
    """Measure ports, then bandwidth, ibping and ibtracert of each pair, sending for ``seconds`` in each direction."""
    job = session.job()
    nodes, absent = nodes_of(session, job)
    looked = await infiniband.look(nodes)
    commands = infiniband.describe(looked, seconds)

    async def run(say: Say) -> ProbeResult:
        at, began = time.time(), time.monotonic()
        survey = infiniband.FabricSurvey(nodes, looked, seconds)
        await survey.run(say)
        with_ports = [name for name, one in looked.items() if one.ports]
        report = report_of("infiniband", survey.pairs, with_ports, absent, at, time.monotonic() - began)
        return infiniband_result(looked, list(survey.directions.values()), report)

    where = tuple(node.name for node in nodes) if commands else ()
    brief = f"{count(len(nodes), 'node')}, every pair in both directions, {seconds} s each, loads the fabric"
    return Probe("Measure InfiniBand", brief, "\n".join(commands), run, LOADS, where)


def infiniband_result(
    looked: Mapping[str, infiniband.FabricNode], directions: Sequence[PathFigure], report: ProbeReport
) -> ProbeResult:
    """The result: ports and measured directions, findings, and what could not be measured."""
    if not report.pairs and not report.why:
        report = report._replace(why="nothing could be measured")
    ports = [port for _, there in sorted(looked.items()) for port in there.ports]
    left = sorted(set(looked) - {name for one in directions for name in (one.a, one.b)})
    missing = [(node, why) for node, one in looked.items() for why in one.why]
    missing += [(rank.node, rank.why) for rank in report.ranks if rank.state == "absent"]
    lines = [
        *table(PORTS, [(f"{one.node}:{one.device}/{one.port}", one.state, one.link_layer,
                        str(one.max_mtu), str(one.active_mtu)) for one in ports]),
        *table(PATHS, map(_path_row, directions)),
        *(f"{one.a} → {one.b}  {line}" for one in directions for line in one.shown),
    ]  # fmt: skip
    return measured(
        "InfiniBand", report, findings(report),
        f"{count(len(report.pairs), 'pair')}, all well" + (f"; not measured: {listed(left)}" if left else ""), lines,
        {"backend": "infiniband", "ports": [port._asdict() for port in ports],
         "directions": [one._asdict() for one in directions]},
        unknowns("infiniband", missing),
    )  # fmt: skip
