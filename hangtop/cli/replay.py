"""``hangtop replay [FILE]``: a recording on the screen, its verdict, or its contents."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from math import inf
from pathlib import Path

import click

from hangtop.cli.options import FILE, SectionedCommand, screen


@click.command("replay", cls=SectionedCommand)
@click.argument("file", metavar="[FILE]", required=False, type=FILE)
@screen
@click.option("--at", "seconds", metavar="S", type=click.FloatRange(min=0), default=inf, show_default="the end",
              help="The moment S seconds after the start.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="No screen: the verdict at that moment as JSON.")
@click.option("--text", is_flag=True, help="No screen: the same as text.")
@click.option("--events", is_flag=True, help="No screen: verdicts, links and marks, one JSON object per line.")
@click.option("--samples", is_flag=True, help="No screen: all samples, one [time, node, kind, value] per line.")
def command(
    theme: str, bell: bool, file: str | None, seconds: float, as_json: bool, text: bool, events: bool, samples: bool
) -> None:  # fmt: skip
    """Show any moment of a recording, or judge it. Without FILE: the past of the last screen.

    With --json or --text the exit code is that of hangtop triage.
    """
    from hangtop.session.replay import ReplaySession, played

    began = time.monotonic()
    path = _newest() if file is None else Path(file)
    if events or samples:
        (_print_events if events else _print_samples)(path)
        return
    if not (as_json or text):
        from hangtop.cli.screen import show

        show(ReplaySession(path, seconds), theme, bell=bell)
        return
    session = played(path, seconds)
    if session.recording.damage:
        click.echo(f"hangtop: {path}: {session.recording.damage}; only the part before it is judged", err=True)
    from hangtop.cli.answer import Answer, finish, reply_of

    finish(reply_of(Answer(session.diagnose(), session.job(), time.monotonic() - began)), as_json=as_json)


def _print_events(path: Path) -> None:
    from hangtop.session.replay import played

    for _, change in played(path, judged=True).state.changes:
        if change.kind != "hangtop":
            click.echo(json.dumps(asdict(change)))


def _print_samples(path: Path) -> None:
    from hangtop.session.recording import Recording

    recording = Recording(path)
    for line in recording.lines():
        click.echo(line)
    if recording.damage:
        raise click.ClickException(f"{path}: {recording.damage}")


def _newest() -> Path:
    """The recording that the last screen kept."""
    from hangtop.session.recordings import past_folder, pasts

    files = pasts(past_folder())
    if not files:
        raise click.UsageError("no recording was kept: name a FILE, as written by hangtop record")
    return files[-1]
