"""``hangtop replay [FILE]``: a recording on the screen, or its verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from hangtop.cli.options import ScreenChoices, SectionedCommand, screen

NAMED = 8
"""Nodes that are named of each session that was kept."""


@click.command("replay", cls=SectionedCommand)
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(dir_okay=False))
@screen
@click.option("--at", "seconds", metavar="S", type=click.FloatRange(min=0), help="Begin (or judge) S seconds into it.")
@click.option(
    "--speed", metavar="X", type=click.FloatRange(0.1, 1000), default=1.0, show_default=True, help="Times its own pace."
)
@click.option("--json", is_flag=True, help="No screen: the verdict at --at, or at the end, as JSON.")
@click.option("--text", is_flag=True, help="No screen: the same for people.")
@click.option("--events", is_flag=True, help="No screen: verdicts, link states and marks, a JSON line each.")
@click.option("--samples", is_flag=True, help="No screen: all that was recorded, [time, node, kind, value] a line.")
@click.option("--list", "lists", is_flag=True, help="Only say which sessions were kept when they were left.")
@click.pass_context
def command(
    ctx: click.Context,
    choices: ScreenChoices,
    file: str | None,
    seconds: float | None,
    speed: float,
    json: bool,
    text: bool,
    events: bool,
    samples: bool,
    lists: bool,
) -> None:
    """Show a recording as if it were live, or judge one moment of it; without FILE, what the last screen saw.

    With --json or --text the exit code is that of hangtop triage.
    """
    from hangtop.session.replay import events_as_json, replay_session, run_to

    if lists:
        _list()
        return
    began = time.monotonic()
    path = _newest() if file is None else Path(file)
    if samples:
        _print_samples(path)
        return
    session, feed = replay_session(path, speed=speed)
    if events:
        for line in events_as_json(session, feed):
            click.echo(line)
        return
    first, last = feed.recording.span
    judged = json or text
    if judged or seconds is not None:
        run_to(session, feed, last if seconds is None else first + seconds)
    if feed.recording.damage:
        click.echo(f"hangtop: {path}: {feed.recording.damage}; what came before is shown", err=True)
    if not judged:
        from hangtop.cli.screen import show

        show(session, choices)
        return
    from hangtop.cli.answer import Answer, print_answer

    answer = Answer(session.diagnose(), session.job(), time.monotonic() - began)
    print_answer(answer, json=json)
    ctx.exit(answer.exit_code)


def _print_samples(path: Path) -> None:
    from hangtop.session.recording import Recording

    recording = Recording(path)
    for line in recording.lines():
        click.echo(line)
    if recording.damage:
        raise click.ClickException(f"{path}: {recording.damage}")


def _kept() -> list[Path]:
    from hangtop.session.recordings import autosave_folder, autosaved

    try:
        return autosaved(autosave_folder())
    except OSError as error:
        raise click.ClickException(f"{autosave_folder()}: cannot be read: {error.strerror}") from None


def _newest() -> Path:
    files = _kept()
    if not files:
        raise click.UsageError("which recording? None was kept: hangtop record FILE writes one.")
    return files[-1]


def _list() -> None:
    """A line a session, the newest first."""
    from hangtop.diagnosis.phrasing import duration, size
    from hangtop.session.recording import Recording, RecordingError

    files = _kept()
    if not files:
        click.echo("no session was kept yet: the screen keeps one when it is left", err=True)
    for path in reversed(files):
        try:
            recording = Recording(path)
            first, last = recording.span
            held = path.stat().st_size
        except (OSError, RecordingError) as error:
            click.echo(f"{path}: {error}", err=True)
            continue
        begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(first))
        targets = _told(recording.about.targets)
        click.echo(f"{begun}  {duration(last - first):>8}  {size(held):>8}  {targets}  {path}")


def _told(targets: Sequence[str]) -> str:
    """What was watched, in a few words: of many nodes how many there are."""
    if len(targets) > NAMED:
        return f"{' '.join(targets[:NAMED])} and {len(targets) - NAMED:,} more"
    return " ".join(targets) or "this machine"
