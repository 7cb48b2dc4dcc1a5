"""``hangtop [watch] [NODE…]``, and :func:`show`, with which other commands open the screen."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

import click

from hangtop.cli.options import FILE, SectionedCommand, connection, screen
from hangtop.cli.terminal import EndedBySignalError, when_asked_to_end
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session


@click.command("watch", cls=SectionedCommand)
@connection()
@screen
@click.option("--record", metavar="FILE", type=FILE, help="Also write a recording.")
def command(options: SessionOptions, theme: str, bell: bool, record: str | None) -> None:
    """Watch a running job, live.

    NODE is a host, user@host:port, an ssh alias, or a set such as gpu[001-064,070]. Without NODE, watches this machine,
    without SSH. The screen keeps a recording for hangtop replay.
    """
    from hangtop.session.live import LiveSession

    session = LiveSession(options)
    if record is not None:
        session.recordings.record(Path(record))
    show(session, theme, bell=bell)


def show(session: Session, theme: str, *, bell: bool) -> None:
    """Show a session until the user leaves, then print where its recording is.

    Raises :class:`click.UsageError` without a terminal or for an unknown theme,
    :class:`~hangtop.cli.terminal.EndedBySignalError` after a signal, and what the session's start raised.
    """
    from tui.app import HangtopApp, ScreenOptions

    came: list[int] = []
    app = HangtopApp(session, ScreenOptions(theme=theme, bell=bell))
    if theme and theme not in app.available_themes:
        raise click.UsageError(f"no theme {theme}; there are {', '.join(sorted(app.available_themes))}")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):  # Textual reads stdin and writes to stderr
        raise click.UsageError(
            "the screen needs a terminal; hangtop triage, analyze and replay --text answer without one"
        )

    async def shown() -> None:
        when_asked_to_end(app.exit, came)  # so that the recording is kept even if the terminal is gone
        await app.run_async()

    asyncio.run(shown())
    try:
        if (kept := session.recordings.kept) is not None:
            click.echo(f"hangtop: the recording of this session: hangtop replay {shlex.quote(str(kept))}", err=True)
    except OSError:
        sys.stderr = None  # the terminal is gone: keep Python from flushing to it
    if app.never_began is not None:
        raise app.never_began
    if came:
        raise EndedBySignalError(came[0])
