"""``hangtop replay [FILE]``: a recording on the screen, or its verdict."""

from __future__ import annotations

import time
from math import inf
from pathlib import Path

import click

from hangtop.cli.options import FILE, SectionedCommand, screen


@click.command("replay", cls=SectionedCommand)
@click.argument("file", metavar="[FILE]", required=False, type=FILE)
@screen
@click.option("--at", "seconds", metavar="S", type=click.FloatRange(min=0), help="Begin (or judge) S seconds into it.")
@click.option(
    "--speed", metavar="X", type=click.FloatRange(0.1, 1000), default=1.0, show_default=True, help="Times its own pace."
)
@click.option("--json", is_flag=True, help="No screen: the verdict at --at, or at the end, as JSON.")
@click.option("--text", is_flag=True, help="No screen: the same for people.")
@click.option("--samples", is_flag=True, help="No screen: all that was recorded, [time, node, kind, value] a line.")
def command(
    theme: str, bell: bool, file: str | None, seconds: float | None, speed: float, json: bool, text: bool,
    samples: bool,
) -> None:  # fmt: skip
    """Show a recording as if it were live, or judge one moment of it; without FILE, what the last screen saw.

    With --json or --text the exit code is that of hangtop triage.
    """
    from hangtop.session.replay import replay_session, run_to

    began = time.monotonic()
    path = _newest() if file is None else Path(file)
    if samples:
        _print_samples(path)
        return
    session, feed = replay_session(path, speed=speed)
    judged = json or text
    if judged or seconds is not None:
        run_to(session, feed, inf if seconds is None else feed.recording.first + seconds)
    if feed.recording.damage:
        click.echo(f"hangtop: {path}: {feed.recording.damage}; what came before is shown", err=True)
    if not judged:
        from hangtop.cli.screen import show

        show(session, theme, bell=bell)
        return
    from hangtop.cli.answer import Answer, finish, reply_of

    finish(reply_of(Answer(session.diagnose(), session.job(), time.monotonic() - began)), as_json=json)


def _print_samples(path: Path) -> None:
    from hangtop.session.recording import Recording

    recording = Recording(path)
    for line in recording.lines():
        click.echo(line)
    if recording.damage:
        raise click.ClickException(f"{path}: {recording.damage}")


def _newest() -> Path:
    """What the last screen saw."""
    from hangtop.session.recordings import past_folder, pasts

    files = pasts(past_folder())
    if not files:
        raise click.UsageError("which recording? None was kept: hangtop record FILE writes one.")
    return files[-1]
