"""The path probe of a session: connect, MTU, loss and throughput of every direction."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from collectors.probes.path.around import Around, look_around
from collectors.probes.path.survey import PathNode, describe, survey
from collectors.samples.asked import PathFigure
from collectors.samples.probes import ProbeReport
from hangtop.diagnosis.addresses import chosen_interface
from hangtop.diagnosis.firewall import with_firewall
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured.network import path_findings, path_report
from hangtop.diagnosis.measured.probes import LOST_SHARE, outcome
from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import count
from hangtop.session.probes import LOADS, Line, Probe, ProbeResult, ProbeSession, Say, cancelled, matrix, path_nodes

TITLE = "Path probe"
NAME = 34
WIDTHS = (10, 12, 7, 9, 9)


def path_probe(session: ProbeSession, *, seconds: float = 0.5, iperf: bool = True) -> Probe:
    """Measure between all nodes; ``seconds`` of sending a direction, with iperf3 where two nodes have it."""
    job = session.job()
    nodes, absent = path_nodes(session, job)

    async def run(say: Say) -> ProbeResult:
        at, began = time.time(), time.monotonic()
        try:
            say("tools and firewalls")
            around = await look_around([(node.name, node.transport, node.python) for node in nodes])
            with_iperf = {node.name for node in nodes if iperf and around.has_iperf(node.name)}
            figures, failed = await survey(nodes, seconds=seconds, progress=say, iperf=with_iperf)
        except asyncio.CancelledError:
            return cancelled(TITLE)
        report = path_report(figures, {**absent, **failed}, at, time.monotonic() - began)
        return result(job, nodes, figures, report, around)

    brief = f"{count(len(job.nodes), 'node')}, MTU, loss and throughput between all of them, about 5 s"
    command = f"on {folded_names(sorted(job.nodes))}: {describe()}"
    where = tuple(node.name for node in nodes)
    return Probe(TITLE, f"{brief}, loads the network", command, run, LOADS, where)


def result(
    job: Job, nodes: Sequence[PathNode], figures: Sequence[PathFigure], report: ProbeReport, around: Around
) -> ProbeResult:
    """What the figures and the nodes' answers mean."""
    found = tuple(with_firewall(finding, around.answers, report.at) for finding in path_findings(figures, report))
    chosen = {node.name: (chosen_interface(job, job.nodes[node.name]) or "", node.address) for node in nodes}
    return ProbeResult(
        f"{TITLE}, {count(report.world_size, 'node')}, {report.took:.1f} s", outcome(report, found),
        found[0].summary if found else report.why or f"{count(len(report.pairs), 'pair')}, all well",
        (*_figure_lines(figures), *matrix(report.pairs), *_interface_lines(chosen)),
        {
            "backend": "path", "world_size": report.world_size, "paths": list(map(_row, figures)),
            "interfaces": {name: interface for name, (interface, _) in chosen.items()},
        },
        found,
    )  # fmt: skip


# --- figures -----------------------------------------------------------------------------------------------------


def _figure_lines(figures: Sequence[PathFigure]) -> Iterator[Line]:
    if figures:
        heads = ("connect", "round trip", "MTU", "GB/s", "resent")
        titles = "".join(title.rjust(width) for title, width in zip(heads, WIDTHS, strict=True))
        yield [(f"{'path':<{NAME}}{titles}  by", "dim")]
    for figure in sorted(figures):
        narrow = figure.mtu is not None and figure.local_mtu is not None and figure.mtu < figure.local_mtu
        lossy = (figure.retransmitted or 0.0) > LOST_SHARE
        texts = (
            "–" if figure.connect is None else f"{figure.connect * 1e6:.0f} µs",
            "–" if figure.round_trip is None else f"{figure.round_trip * 1e6:.0f} µs",
            "–" if figure.mtu is None else str(figure.mtu),
            "–" if figure.throughput is None else f"{figure.throughput / 1e9:.3f}",
            "–" if figure.retransmitted is None else f"{figure.retransmitted:.2%}",
        )
        line: Line = [(f"{figure.a + ' → ' + figure.b:<{NAME}}", "")]
        shades = ("", "", "bad" if narrow else "", "strong", "bad" if lossy else "")
        cells = zip(texts, shades, WIDTHS, strict=True)
        line += [(text.rjust(width), shade) for text, shade, width in cells]  # type: ignore[misc]
        by = figure.method if figure.throughput is not None else ""
        yield [*line, (f"  {by}", "dim"), (f"  {figure.error}" if figure.error else "", "bad")]


def _interface_lines(chosen: Mapping[str, tuple[str, str]]) -> Iterator[Line]:
    yield []
    for name, (interface, address) in chosen.items():
        taken = (interface, "") if interface else ("no interface: none fits", "bad")
        yield [(f"{name:<{NAME}}NCCL and gloo would take ", ""), taken, (f" at {address}", "")]  # type: ignore[list-item]


def _row(figure: PathFigure) -> dict[str, Any]:
    return {
        "a": figure.a, "b": figure.b, "connect_us": _micro(figure.connect), "rtt_us": _micro(figure.round_trip),
        "mtu": figure.mtu, "local_mtu": figure.local_mtu, "interface": figure.interface, "source": figure.source,
        "throughput_GBps": None if figure.throughput is None else figure.throughput / 1e9,
        "throughput_source": figure.method, "retransmitted": figure.retransmitted, "error": figure.error,
    }  # fmt: skip


def _micro(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e6, 1)
