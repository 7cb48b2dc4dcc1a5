"""``hangtop probe path NODE…``: connect, MTU, loss, throughput, names and routes between nodes."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import click

from collectors.probes.path.survey import describe
from collectors.samples.asked import PathFigure
from hangtop.cli.answer import Answer
from hangtop.cli.common import connection_but, nodes
from hangtop.cli.connecting import connected_session
from hangtop.cli.consent import confirm, refuse_read_only
from hangtop.cli.layout import LaidOut
from hangtop.cli.probe_answer import answered
from hangtop.cli.running import interrupted_cleanly
from hangtop.cli.status import Status
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured import surroundings
from hangtop.diagnosis.node_order import BY_NAME, arrangement
from hangtop.session.asking.paths import PathResult, measure
from hangtop.session.asking.probing import NEEDED, path_nodes
from hangtop.session.commands import completed
from hangtop.session.options import SessionOptions
from hangtop.session.probed.path_lines import path_lines
from hangtop.session.probed.shades import plain


@click.command("path", cls=LaidOut)
@nodes
@connection_but("interval", "patience", "logs", "py_spy", "sudo", "read_only")
@click.option("--seconds", metavar="S", type=click.FloatRange(0.1, 30), default=0.5, show_default=True,
              help="Sending time of one direction of one pair.")  # fmt: skip
@click.option("--iperf3/--no-iperf3", "iperf", default=True, show_default=True,
              help="Take the throughput from iperf3 between nodes that have it.")  # fmt: skip
@click.option("--square", type=click.Choice(["place", "name"]), default="place", show_default=True,
              help="The square of pairs: nodes of one leaf together, where that is known, or by name.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask before a probe beside a running job.")
@click.option("--json", is_flag=True, help="Answer as JSON (docs/findings.md), with every direction of every pair.")
@click.pass_context
def command(
    ctx: click.Context, options: SessionOptions, seconds: float, iperf: bool, square: str, yes: bool, json: bool
) -> None:
    """Measure the path between nodes: TCP connect, round trip, MTU, loss, throughput, in both directions.

    And ask each node how it sees the others: names, routes, ping. Up to 16 nodes every pair is measured, above, every
    node against the first. Exit code: 0 ok, 1 slow or failed, 2 wrong usage, 3 no node reachable.
    """
    refuse_read_only(options)
    began = time.monotonic()
    result, job = interrupted_cleanly(_probe(options, seconds, iperf, yes))
    outcome = result.outcome
    verdict = Verdict("healthy" if outcome == "ok" else "unknown", result.summary, result.findings)
    answer = Answer(completed(verdict, options, job.nodes), job, time.monotonic() - began)
    more = {
        "backend": "path", "world_size": result.report.world_size, "paths": list(map(_row, result.figures)),
        "interfaces": {name: interface for name, (interface, _) in result.interfaces.items()},
        "names": _names(result), "routes": _routes(result), "ping": list(map(asdict, result.pings())),
    }  # fmt: skip
    arranged = arrangement(job, set(job.nodes)) if square == "place" else BY_NAME
    answered(ctx, answer, outcome, figures=more, table=plain(path_lines(result, arranged)), json=json)


async def _probe(options: SessionOptions, seconds: float, iperf: bool, yes: bool) -> tuple[PathResult, Job]:
    status = Status()
    async with connected_session(options, status, NEEDED) as session:
        job = session.job()
        taking_part, absent = path_nodes(session, job)
        status.clear()
        confirm(describe(), (node.name for node in taking_part), job, yes=yes)
        return await measure(job, taking_part, absent, seconds=seconds, iperf=iperf, progress=status.say), job


def _row(figure: PathFigure) -> dict[str, Any]:
    return {
        "a": figure.a, "b": figure.b, "connect_us": _micro(figure.connect), "rtt_us": _micro(figure.round_trip),
        "mtu": figure.mtu, "local_mtu": figure.local_mtu, "interface": figure.interface, "source": figure.source,
        "throughput_GBps": None if figure.throughput is None else figure.throughput / 1e9,
        "throughput_source": figure.method, "retransmitted": figure.retransmitted, "error": figure.error,
    }  # fmt: skip


def _micro(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e6, 1)


def _names(result: PathResult) -> list[dict[str, Any]]:
    """What each node takes each name for, and each address's name as it has it."""
    rows = []
    for node, answers in sorted(result.seen.answers.items()):
        for one in answers:
            if one.name in {"resolve", "reverse", "hosts"}:
                value = list(one.value) if isinstance(one.value, list) else []
                took = value.pop(0) if one.name != "hosts" and value else None
                rows.append({"node": node, "question": one.name, "subject": one.subject, "answer": value,
                             "took_s": took, "error": one.error})  # fmt: skip
    return rows


def _routes(result: PathResult) -> list[dict[str, Any]]:
    keys = ("interface", "gateway", "source")
    return [
        {"a": route.a, "b": route.b, "there": dict(zip(keys, route.there, strict=True)),
         "back": dict(zip(keys, route.back, strict=True)), "differ": route.why}
        for route in surroundings.routes(result.seen)
    ]  # fmt: skip
