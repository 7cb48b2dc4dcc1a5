"""``hangtop probe trace``: what profiler traces say about compute, communication and late ranks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import click

from collectors.samples.traces import RankTrace
from hangtop.cli.answer import Answer, wants_colour
from hangtop.cli.common import connection_but
from hangtop.cli.connecting import connected_session
from hangtop.cli.consent import ask, refuse_read_only
from hangtop.cli.layout import LaidOut
from hangtop.cli.probe_answer import answered
from hangtop.cli.running import interrupted_cleanly
from hangtop.cli.status import Status
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.session.asking import traces
from hangtop.session.asking.traced import Part, Traced, as_json, lines, traced
from hangtop.session.options import SessionOptions

COLOURS: dict[Part, str] = {"compute": "green", "exposed": "red", "copy": "yellow", "data": "magenta", "idle": "blue"}
WIDTH = 118


@click.command("trace", cls=LaidOut)
@click.argument("words", metavar="[PATH | NODE]...", nargs=-1)
@click.option("--on-nodes", metavar="GLOB", multiple=True,
              help="Read these files or folders on the nodes that are named; only figures are sent.")  # fmt: skip
@click.option("--live", is_flag=True, help="Ask the running ranks for a trace, by dynolog.")
@click.option("--seconds", metavar="S", type=click.FloatRange(0.1, 60), default=2.0, show_default=True,
              help="With --live: how long to trace.")  # fmt: skip
@connection_but("interval", "patience", "logs", "py_spy", "sudo", "read_only")
@click.option("--yes", is_flag=True, help="With --live: do not ask before the ranks are traced.")
@click.option("--json", is_flag=True, help="Answer as JSON (docs/findings.md), with every rank and collective.")
@click.pass_context
def command(
    ctx: click.Context, words: tuple[str, ...], on_nodes: tuple[str, ...], live: bool, seconds: float,
    options: SessionOptions, yes: bool, json: bool,
) -> None:  # fmt: skip
    """Read profiler traces (torch.profiler, Kineto; .json, .json.gz) and say who computes, communicates and waits.

    PATH is a file, a folder or a glob on this machine. With --on-nodes or --live the words are nodes. Exit code: 0 ok,
    1 slow or nothing to read, 2 wrong usage, 3 no node reachable.
    """
    began = time.monotonic()
    if on_nodes and live:
        raise click.UsageError("--on-nodes reads traces that lie there, --live makes new ones: choose one")
    job = Job(now=time.time(), watched=0.0, live=False)
    if live:
        refuse_read_only(options, "tracing: it slows the ranks down")
        found, job = interrupted_cleanly(_live(replace(options, targets=words), seconds, yes))
    elif on_nodes:
        found, job = interrupted_cleanly(_there(replace(options, targets=words), on_nodes))
    elif words:
        found = _here(words)
    else:
        raise click.UsageError("name traces: files, folders or globs; or nodes with --on-nodes GLOB or --live")
    answer = traced(found)
    verdict = Verdict("healthy" if answer.outcome == "ok" else "unknown", answer.summary, answer.findings)
    answered(
        ctx, Answer(verdict, job, time.monotonic() - began), answer.outcome,
        figures=as_json(answer), table=_table(answer), json=json,
    )  # fmt: skip


def _here(patterns: tuple[str, ...]) -> list[RankTrace]:
    status = Status()
    try:
        return traces.read_here(patterns, status.say)
    finally:
        status.clear()


async def _there(options: SessionOptions, patterns: tuple[str, ...]) -> tuple[list[RankTrace], Job]:
    status = Status()
    async with connected_session(options, status, ("ranks",)) as session:
        job = session.job()
        return await traces.read_there(session, job, patterns, status.say), job


async def _live(options: SessionOptions, seconds: float, yes: bool) -> tuple[list[RankTrace], Job]:
    status = Status()
    async with connected_session(options, status, ("ranks",)) as session:
        job = session.job()
        asking = await traces.find_ways(session, job, seconds)
        status.clear()
        if not asking.possible:
            click.echo("\n".join((*asking.missing(), *traces.HOW_TO_ENABLE)), err=True)
            return asking.unread(), job
        for line in asking.missing():
            click.echo(line, err=True)
        for node, commands in asking.commands().items():
            for shown in commands:
                click.echo(f"on {node}: {shown}", err=True)
        ask(f"The profiler slows these ranks down for {seconds:g} s. Go on?", yes=yes)
        status.say(f"tracing for {seconds:g} s, then the ranks write")
        return await traces.capture(session, asking), job


def _table(answer: Traced) -> Iterator[str]:
    colour = wants_colour(sys.stdout)
    for line in lines(answer, WIDTH):
        yield "".join(_painted(text, part) if colour else text for text, part in line).rstrip()


def _painted(text: str, part: Part) -> str:
    if part in COLOURS:
        return click.style(text, fg=COLOURS[part])
    return click.style(text, bold=part == "strong", dim=part == "dim") if part != "text" else text
