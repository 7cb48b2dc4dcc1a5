"""``hangtop [watch] [NODE…]``, and the screen for other commands: the one module here that opens it."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path

import click

from hangtop.cli.options import FILE, SectionedCommand, connection, screen
from hangtop.cli.terminal import EndedBySignalError, when_asked_to_end
from hangtop.diagnosis.phrasing import duration, size
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session


@click.command("watch", cls=SectionedCommand)
@connection()
@screen
@click.option("--record", metavar="FILE", type=FILE, help="Also write what is seen to a file.")
@click.option(
    "--keep/--no-keep", default=True, show_default=True, help="Keep what was seen for hangtop replay when leaving."
)
def command(options: SessionOptions, theme: str, bell: bool, record: str | None, keep: bool) -> None:
    """Watch a running job, live.

    NODE is a host, user@host:port, an ssh alias, or a set such as gpu[001-064,070]. Without one, this machine is
    watched, without SSH.
    """
    from hangtop.session.live import live_session

    session = live_session(options)
    if record is not None:
        session.recordings.record(Path(record))
    show(session, theme, bell=bell, keep=keep and record is None)


def show(session: Session, theme: str, *, bell: bool, keep: bool = False) -> None:
    """Show a session until the user leaves; with ``keep``, what was seen lately is kept then.

    Raises :class:`click.UsageError` where there is no terminal to show it on, or no such theme, what the session
    raises that cannot begin, and :class:`~hangtop.cli.terminal.EndedBySignalError` when a signal ended it.
    """
    from tui.app import HangtopApp, ScreenOptions

    told: list[str] = []
    came: list[int] = []
    app = HangtopApp(
        session,
        ScreenOptions(
            theme=theme, no_color=bool(os.environ.get("NO_COLOR")), bell=bell,
            before_close=lambda: told.append(kept(session)) if keep else None,
        ),
    )  # fmt: skip

    if theme and theme not in app.available_themes:
        raise click.UsageError(f"no theme {theme}; there are {', '.join(sorted(app.available_themes))}")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):  # Textual reads from the one and writes to the other
        raise click.UsageError("the screen needs a terminal; hangtop triage and hangtop analyze answer in text")

    async def shown() -> None:
        when_asked_to_end(app.exit, came)  # of a terminal that is gone, too, nothing that was seen is lost
        await app.run_async()

    asyncio.run(shown())
    try:
        for line in filter(None, told):
            click.echo(f"hangtop: {line}", err=True)
    except OSError:
        sys.stderr = None  # the terminal is gone: nobody is there to be told, now or when Python flushes it
    if app.never_began is not None:
        raise app.never_began
    if came:
        raise EndedBySignalError(came[0])


def kept(session: Session) -> str:
    """Keep what a session saw lately; says in a line what is kept where, or why not, empty where nothing was seen."""
    from hangtop.session.recording import Recording
    from hangtop.session.recordings import MOST_BYTES, MOST_FILES

    if all(node.seen_at is None for node in session.state.nodes.values()):
        return ""
    found = session.recordings.autosave()
    if found is None:
        return f"what was seen is not kept: {session.recordings.no_past}"
    first, last = Recording(found).span
    bound = f"{size(found.stat().st_size)}; of the last {MOST_FILES} at most {size(MOST_BYTES)} are kept"
    return f"the last {duration(last - first)} are kept: hangtop replay {shlex.quote(str(found))} ({bound})"
