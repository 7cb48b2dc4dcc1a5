"""``hangtop triage NODE…``: watch briefly and answer; ``hangtop record FILE NODE…``: record without a screen."""

from __future__ import annotations

import asyncio
import importlib
import shlex
import time
from dataclasses import replace

import click

from hangtop.cli.answer import Answer, finish, reply_of
from hangtop.cli.connecting import all_answered, all_spoken, need_a_node, opened
from hangtop.cli.options import FILE, SectionedCommand, connection
from hangtop.cli.terminal import EndedBySignalError, interrupted_cleanly
from hangtop.diagnosis.phrasing import count, duration
from hangtop.session.options import SessionOptions

WATCH = 4.0
"""Default of ``--watch``, in seconds."""
STEP = 0.25
"""Seconds between two checks whether a recording is over."""
_DEFAULT = click.core.ParameterSource.DEFAULT


@click.command("triage", cls=SectionedCommand)
@connection()
@click.option("--watch", metavar="S", type=click.FloatRange(1, 3600), default=WATCH, show_default=True,
              help="Seconds to watch before answering; longer if undecided.")  # fmt: skip
@click.option("--json", is_flag=True, help="Answer as JSON (docs/findings.md).")
@click.option("--record", metavar="FILE", type=FILE, help="Also write a recording.")
@click.pass_context
def triage(ctx: click.Context, options: SessionOptions, watch: float, json: bool, record: str | None) -> None:
    """Watch for a few seconds, print the verdict, exit with its code.

    Exit code: 0 healthy or idle, 1 a fault, 2 wrong usage, 3 no node reachable, 5 undecided, 6 waiting. Only the answer
    goes to standard output, progress goes to standard error. A wait shorter than --patience is not called a hang.
    """
    # A one-shot answer is about what did not move while it watched, unless the user wants more patience.
    patience = options.patience if ctx.get_parameter_source("patience") is not _DEFAULT else watch
    answer = interrupted_cleanly(_triage(replace(options, patience=patience), watch, record))
    finish(reply_of(answer), as_json=json)


async def _triage(options: SessionOptions, watch: float, record: str | None) -> Answer:
    """Watch the nodes for ``watch`` seconds from their first answers, and judge."""
    began = time.monotonic()
    async with opened(options, record=record) as (session, status):
        # The rules take as long to load as nodes take to answer.
        rules = asyncio.create_task(asyncio.to_thread(importlib.import_module, "hangtop.session.watching.triage"))
        await all_answered(session, status.say)
        if not session.living():
            await all_spoken(session)
        await rules
        if any(node.seen_at is not None for node in session.state.nodes.values()):
            from hangtop.session.watching.triage import watch_until_sure

            verdict = await watch_until_sure(session, watch, status.say)
        else:
            verdict = await session.watcher.judge()
        return Answer(verdict, session.job(), time.monotonic() - began)


@click.command("record", cls=SectionedCommand)
@click.argument("file", metavar="FILE", type=FILE)
@connection()
@click.option("--for", "seconds", metavar="S", type=click.FloatRange(min=0.1), help="Stop after S seconds.")
def record(options: SessionOptions, file: str, seconds: float | None) -> None:
    """Watch without a screen and write a recording to FILE, until Ctrl-C or --for.

    When the job stands still, takes stacks as the screen does. Exit code: 0 recorded (also with
    Ctrl-C), 2 wrong usage, 3 no node reachable.
    """
    summary: list[str] = []
    try:
        interrupted_cleanly(_record(options, file, seconds, summary))
    except EndedBySignalError:
        raise
    except KeyboardInterrupt:  # the normal end
        if not summary:
            raise
    for line in summary:
        click.echo(line, err=True)


async def _record(options: SessionOptions, file: str, seconds: float | None, summary: list[str]) -> None:
    """Record; append to ``summary`` if any node was seen."""
    from hangtop.session.recording import RecordingError

    began = time.monotonic()
    async with opened(options, watching=True, record=file) as (session, status):
        recordings, nodes = session.recordings, session.state.nodes
        try:
            while seconds is None or time.monotonic() - began < seconds:
                await asyncio.sleep(STEP)
                if recordings.fault:
                    raise RecordingError(recordings.fault)
                live = sum(node.connected for node in nodes.values())
                said = session.verdict.summary if session.verdict else ""
                status.say(f"{file}: {time.monotonic() - began:.0f} s, {live} of {len(nodes)} nodes  {said}")
            status.clear()
            need_a_node(session)
        finally:
            seen = sum(node.seen_at is not None for node in nodes.values())
            if seen and not recordings.fault:
                what = f"{duration(time.monotonic() - began)} of {count(seen, 'node')}"
                what += (
                    f" without {lost:,} samples, for which the file was too slow" if (lost := recordings.lost) else ""
                )
                summary.append(f"hangtop: recorded {what}: hangtop replay {shlex.quote(file)}")
