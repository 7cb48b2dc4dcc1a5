"""``hangtop replay FILE``: a recording on the screen, or its verdict."""

from __future__ import annotations

import time
from pathlib import Path

import click

from hangtop.cli.common import CONFIG, ScreenChoices, screen


@click.command("replay")
@click.argument("file", type=click.Path(dir_okay=False))
@CONFIG
@screen
@click.option("--at", "seconds", metavar="S", type=click.FloatRange(min=0), help="Begin (or judge) S seconds into it.")
@click.option(
    "--speed", metavar="X", type=click.FloatRange(0.1, 1000), default=1.0, show_default=True, help="Times its own pace."
)
@click.option("--json", is_flag=True, help="No screen: the verdict at --at, or at the end, as JSON.")
@click.option("--text", is_flag=True, help="No screen: the same for people.")
@click.pass_context
def command(
    ctx: click.Context, choices: ScreenChoices, file: str, seconds: float | None, speed: float, json: bool, text: bool
) -> None:
    """Show a recording as if it were live, or judge one moment of it.

    With --json or --text the exit code is that of hangtop triage.
    """
    from hangtop.session.replay import replay_session, run_to

    began = time.monotonic()
    session, feed = replay_session(Path(file), speed=speed)
    first, last = feed.recording.span
    judged = json or text
    if not judged:
        session.keep_past()
    if judged or seconds is not None:
        run_to(session, feed, last if seconds is None else first + seconds)
    if feed.recording.damage:
        click.echo(f"hangtop: {file}: {feed.recording.damage}; what came before is shown", err=True)
    if not judged:
        from hangtop.cli.screen import show

        show(session, choices)
        return
    from hangtop.cli.answer import Answer, print_answer

    answer = Answer(session.diagnose(), session.job(), time.monotonic() - began)
    print_answer(answer, json=json)
    ctx.exit(answer.exit_code)
