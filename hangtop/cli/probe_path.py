"""``hangtop probe path NODE…``: connect, MTU, loss and throughput between nodes, with plain sockets."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from typing import Any

import click

from collectors.fleet import payload
from collectors.probes.path.survey import survey
from collectors.samples import PathFigure, ProbeReport
from hangtop.cli.answer import Answer
from hangtop.cli.common import connection, nodes
from hangtop.cli.connecting import connected_session
from hangtop.cli.consent import confirm, refuse_read_only
from hangtop.cli.probe_answer import answered
from hangtop.cli.running import interrupted_cleanly
from hangtop.cli.status import Status
from hangtop.diagnosis import paths, probes
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.session.options import SessionOptions
from hangtop.session.probing import path_nodes


@click.command("path")
@nodes
@connection
@click.option("--seconds", type=click.FloatRange(0.1, 30), default=0.5, show_default=True,
              help="Sending time of one direction of one pair.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask before a probe beside a running job.")
@click.option("--json", is_flag=True, help="Answer as JSON (docs/findings.md), with every direction of every pair.")
@click.pass_context
def command(ctx: click.Context, options: SessionOptions, seconds: float, yes: bool, json: bool) -> None:
    """Measure the path between nodes: TCP connect, round trip, MTU, loss, throughput, in both directions.

    Up to 16 nodes every pair is measured, above, every node against the first. Exit code: 0 ok, 1 slow or failed,
    2 wrong usage, 3 no node reachable.
    """
    refuse_read_only(options)
    began = time.monotonic()
    figures, report, job = interrupted_cleanly(_probe(options, seconds, yes))
    found = paths.findings(figures, report)
    outcome = probes.outcome(report, found)
    summary = found[0].summary if found else report.why or f"{len(report.pairs)} pairs, all well"
    answer = Answer(Verdict("healthy" if outcome == "ok" else "unknown", summary, found), job, time.monotonic() - began)
    more = {"backend": "path", "world_size": report.world_size, "paths": list(map(_row, figures))}
    answered(ctx, answer, outcome, figures=more, table=_table(figures), json=json)


async def _probe(options: SessionOptions, seconds: float, yes: bool) -> tuple[list[PathFigure], ProbeReport, Job]:
    status = Status()
    async with connected_session(options, status) as session:
        job = session.job()
        taking_part, absent = path_nodes(session, job)
        status.clear()
        command = f"{shlex.join(payload.command())}  (sockets between the nodes; the program comes through its input)"
        confirm(command, (node.name for node in taking_part), job, yes=yes)
        at, began = time.time(), time.monotonic()
        figures, failed = await survey(taking_part, seconds=seconds, progress=status.say)
        return figures, paths.report(figures, {**absent, **failed}, at, time.monotonic() - began), job


def _row(figure: PathFigure) -> dict[str, Any]:
    return {
        "a": figure.a, "b": figure.b, "connect_us": _micro(figure.connect), "rtt_us": _micro(figure.round_trip),
        "mtu": figure.mtu, "local_mtu": figure.local_mtu, "interface": figure.interface, "source": figure.source,
        "throughput_GBps": None if figure.throughput is None else figure.throughput / 1e9,
        "retransmitted": figure.retransmitted, "error": figure.error,
    }  # fmt: skip


def _micro(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e6, 1)


def _table(figures: Sequence[PathFigure]) -> Iterator[str]:
    yield f"{'path':<34}{'connect':>10}{'round trip':>12}{'MTU':>7}{'GB/s':>9}{'resent':>9}"
    for figure in sorted(figures):
        known = (
            "–" if figure.connect is None else f"{figure.connect * 1e6:.0f} µs",
            "–" if figure.round_trip is None else f"{figure.round_trip * 1e6:.0f} µs",
            "–" if figure.mtu is None else str(figure.mtu),
            "–" if figure.throughput is None else f"{figure.throughput / 1e9:.3f}",
            "–" if figure.retransmitted is None else f"{figure.retransmitted:.2%}",
        )
        columns = "".join(text.rjust(width) for text, width in zip(known, (10, 12, 7, 9, 9), strict=True))
        yield f"{figure.a + ' → ' + figure.b:<34}{columns}  {figure.error}"
