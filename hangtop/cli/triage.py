"""``hangtop triage NODE…``: connect, watch a few seconds, look at the stacks, answer, exit with a code."""

from __future__ import annotations

import asyncio
import importlib
import time
from dataclasses import replace
from pathlib import Path

import click

from hangtop.cli.answer import Answer, print_answer
from hangtop.cli.connecting import all_answered, all_spoken
from hangtop.cli.options import SectionedCommand, connection, nodes
from hangtop.cli.terminal import Status, asker, interrupted_cleanly
from hangtop.session.options import SessionOptions

WATCH = 4.0
"""Seconds of watching without ``--watch``."""


@click.command("triage", cls=SectionedCommand)
@nodes
@connection()
@click.option(
    "--watch",
    metavar="S",
    type=click.FloatRange(1, 3600),
    default=WATCH,
    show_default=True,
    help="Seconds to watch before answering.",
)
@click.option("--json", is_flag=True, help="Answer as JSON (docs/findings.md).")
@click.option("--record", metavar="FILE", type=click.Path(dir_okay=False), help="Also keep what was seen, for replay.")
@click.pass_context
def command(ctx: click.Context, options: SessionOptions, watch: float, json: bool, record: str | None) -> None:
    """Look for a few seconds, say what is wrong, exit with a code.

    Exit code: 0 healthy or idle, 1 any other verdict, 2 wrong usage, 3 no node reachable, 6 waiting. The
    answer alone goes to standard output, progress to standard error. It claims no more than it watched: a wait shorter
    than --watch seconds is no hang.
    """
    began = time.monotonic()
    # A one-shot answer is about what did not move while it was watched, not about a patience that it has no time for.
    patience = options.patience if ctx.get_parameter_source("patience") is not _DEFAULT else watch
    answer = interrupted_cleanly(triage(replace(options, patience=min(patience, watch)), watch, began, record))
    print_answer(answer, json=json)
    ctx.exit(answer.exit_code)


_DEFAULT = click.core.ParameterSource.DEFAULT


async def triage(options: SessionOptions, watch: float, began: float, record: str | None = None) -> Answer:
    """Watch the nodes for ``watch`` seconds from when they answer and judge what was seen."""
    from hangtop.session.live import live_session

    session = live_session(options)
    session.asker = asker(batch=options.batch)
    if record is not None:
        session.recordings.record(Path(record))
    status = Status()
    try:
        await session.start(watching=False)
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
            verdict = await session.judge()
        status.clear()
        return Answer(verdict, session.job(), time.monotonic() - began)
    finally:
        status.clear()
        await session.close()
