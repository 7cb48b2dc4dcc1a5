"""``hangtop record FILE NODE…``: watch without a screen and keep what is seen."""

from __future__ import annotations

import asyncio
import shlex
import time
from pathlib import Path

import click

from hangtop.cli.node_command import need_a_node
from hangtop.cli.options import SectionedCommand, connection, nodes
from hangtop.cli.terminal import EndedBySignalError, Status, asker, interrupted_cleanly
from hangtop.diagnosis.phrasing import count, duration, size
from hangtop.session.options import SessionOptions
from hangtop.session.recording import RecordingError

STEP = 0.25
"""Seconds between two looks whether the recording is over."""


@click.command("record", cls=SectionedCommand)
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False))
@nodes
@connection()
@click.option("--for", "seconds", metavar="S", type=click.FloatRange(min=0.1), help="Stop after so many seconds.")
def command(options: SessionOptions, file: str, seconds: float | None) -> None:
    """Watch without a screen and write what is seen to FILE, until Ctrl-C or --for.

    The session looks at stacks by itself when the job stands still, as the screen does, unless --read-only. Exit code:
    0 recorded (also by Ctrl-C), 2 wrong usage, 3 no node reachable.
    """
    told: list[str] = []
    try:
        interrupted_cleanly(_record(options, Path(file), seconds, told))
    except EndedBySignalError:
        raise
    except KeyboardInterrupt:  # how it is ended
        if not told:
            raise
    for line in told:
        click.echo(line, err=True)


async def _record(options: SessionOptions, path: Path, seconds: float | None, told: list[str]) -> None:
    """Record; ``told`` gets what was recorded, where a node was there to tell something."""
    from hangtop.session.live import live_session

    session = live_session(options)
    session.asker = asker(batch=options.batch)
    recorder = session.recordings.record(path)
    status = Status()
    began = time.monotonic()
    try:
        await session.start()
        while seconds is None or time.monotonic() - began < seconds:
            await asyncio.sleep(STEP)
            if session.recordings.fault:
                raise RecordingError(session.recordings.fault)
            state = session.state
            live = sum(node.link in {"live", "limited"} for node in state.nodes.values())
            said = session.verdict.summary if session.verdict else ""
            status.say(
                f"{path}: {time.monotonic() - began:.0f} s, {recorder.bytes_written >> 10} KiB, "
                f"{live} of {len(state.nodes)} nodes  {said}"
            )
        status.clear()
        need_a_node(session)
    finally:
        status.clear()
        await session.close()
        seen = sum(node.seen_at is not None for node in session.state.nodes.values())
        if seen and not session.recordings.fault:
            what = f"{duration(time.monotonic() - began)} of {count(seen, 'node')}, {size(recorder.bytes_written)}"
            told.append(f"hangtop: recorded {what}: hangtop replay {shlex.quote(str(path))}")
