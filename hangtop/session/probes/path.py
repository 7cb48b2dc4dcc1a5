"""The path probe of a session: connect, MTU, loss and throughput of every direction."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from collectors.probes import tools
from collectors.probes.path import PathSurvey, describe
from collectors.samples.asked import Observation, PathFigure
from collectors.samples.probes import ProbeReport
from hangtop.diagnosis.firewall import with_firewall
from hangtop.diagnosis.measured.probes import path_findings, report_of
from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import count
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

TITLE = "Path probe"
HEADS = ("path", "connect µs", "round trip µs", "MTU", "GB/s", "resent", "by")


def path_probe(session: Session, *, seconds: float = 0.5, iperf: bool = True) -> Probe:
    """Measure between all nodes; ``seconds`` of sending a direction, with iperf3 where two nodes have it."""
    job = session.job()
    nodes, absent = nodes_of(session, job)

    async def run(say: Say) -> ProbeResult:
        at, began = time.time(), time.monotonic()
        say("tools and firewalls")
        answers = await tools.look(nodes, ["iperf3"])
        survey = PathSurvey(nodes, seconds, {name for name in answers if iperf and tools.found(answers[name])})
        await survey.run(say)
        missing, names = {**absent, **survey.absent}, [node.name for node in nodes]
        report = report_of("path", survey.pairs, names, missing, at, time.monotonic() - began)
        return result(list(survey.figures.values()), report, answers)

    brief = f"{count(len(job.nodes), 'node')}, MTU, loss and throughput between all of them, about 5 s"
    command = f"on {folded_names(sorted(job.nodes))}: {describe()}"
    where = tuple(node.name for node in nodes)
    return Probe(TITLE, f"{brief}, loads the network", command, run, LOADS, where)


def result(
    figures: Sequence[PathFigure], report: ProbeReport, answers: Mapping[str, Sequence[Observation]]
) -> ProbeResult:
    """What the figures mean; ``answers`` by node, the active firewalls among them."""
    found = tuple(with_firewall(finding, answers, report.at) for finding in path_findings(figures, report))
    document = {"backend": "path", "world_size": report.world_size, "paths": [one._asdict() for one in figures]}
    return measured(
        f"{TITLE}, {count(report.world_size, 'node')}, {report.took:.1f} s", report, found,
        f"{count(len(report.pairs), 'pair')}, all well", table(HEADS, map(_row, sorted(figures))), document,
    )  # fmt: skip


def _row(figure: PathFigure) -> tuple[str, ...]:
    return (
        f"{figure.a} → {figure.b}",
        text_or_dash(figure.connect and figure.connect * 1e6, "{:.0f}".format),
        text_or_dash(figure.round_trip and figure.round_trip * 1e6, "{:.0f}".format),
        text_or_dash(figure.mtu, "{:g}".format),
        text_or_dash(figure.throughput and figure.throughput / 1e9, "{:.3f}".format),
        text_or_dash(figure.retransmitted, "{:.2%}".format),
        figure.error or figure.method,
    )
