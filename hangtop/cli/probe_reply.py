"""What all probes have in common: their options, the question before they run, their answer as JSON and as a table."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterable, Iterator
from typing import NoReturn

import click

from hangtop.cli.answer import Answer, as_json, as_text, wants_colour
from hangtop.cli.node_command import NOT_WATCHING, NodeRun, Reply, node_command
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import outcome_words
from hangtop.session.options import SessionOptions, completed
from hangtop.session.probes import NEEDED, Line, Probe, ProbeRefused, ProbeResult, Shade

probe_command = functools.partial(
    node_command, json="docs/findings.md", yes="Do not ask before a probe beside a running job.",
    changes="probes: they load the network", hidden=NOT_WATCHING, needs=NEEDED, node_needed=False,
)  # fmt: skip
"""A command on nodes that measures something."""
COLOURS: dict[Shade, str] = {"good": "green", "bad": "red", "middling": "yellow", "accent": "magenta", "dim": "blue"}


async def run_probe(run: NodeRun, probe: Probe, began: float) -> Reply:
    """Show the command, ask where a job runs beside it, run it, and reply."""
    run.status.clear()
    if probe.command:
        click.echo(probe.command, err=True)
    job = run.session.job()
    beside = [rank for rank in job.ranks if rank.gone_at is None and rank.node in probe.nodes]
    if beside:
        run.agree(f"{len(beside)} ranks of a job run there. {probe.risk} Go on?")
    try:
        result = await probe.run(run.status.say)
    except ProbeRefused as refused:
        raise click.ClickException(str(refused)) from None
    return probe_reply(result, job, began, run.options)


def probe_reply(result: ProbeResult, job: Job, began: float, options: SessionOptions | None = None) -> Reply:
    """The reply of a probe; with ``options`` the commands of next steps name the way to the nodes."""
    verdict = Verdict(
        "healthy" if result.outcome == "ok" else "unknown", result.summary, result.findings, result.unknown
    )
    if options is not None:
        verdict = completed(verdict, options, job.nodes)
    answer = Answer(verdict, job, time.monotonic() - began)
    document = as_json(answer) | {"verdict": result.outcome} | dict(result.figures)
    return Reply(document, _lines(answer, result), 3 if answer.exit_code == 3 else int(result.outcome != "ok"))


def refused_usage(refused: ProbeRefused) -> NoReturn:
    """A probe that cannot be planned so is wrong usage."""
    raise click.UsageError(str(refused)) from None


def _lines(answer: Answer, result: ProbeResult) -> Iterator[str]:
    yield f"{outcome_words(result.outcome).upper()}  {answer.verdict.summary}\n"
    yield from painted(result.lines)
    if answer.verdict.findings:
        text = as_text(answer, colour=wants_colour(sys.stdout))
        yield "".join(text.partition("\n\n")[1:]).rstrip("\n")


def painted(lines: Iterable[Line]) -> Iterator[str]:
    """The lines with colours for their shades, where the terminal has them."""
    colour = wants_colour(sys.stdout)
    for line in lines:
        pieces = (_painted(text, shade) if colour and text.strip() else text for text, shade in line)
        yield "".join(pieces).rstrip()


def _painted(text: str, shade: Shade) -> str:
    return click.style(text, fg=COLOURS.get(shade), bold=shade == "strong") if shade else text
