"""``hangtop [watch] [NODE…]``: the live screen."""

from __future__ import annotations

import click

from hangtop.cli.options import ScreenChoices, SectionedCommand, connection, nodes, screen
from hangtop.session.options import SessionOptions


@click.command("watch", cls=SectionedCommand)
@nodes
@connection()
@screen
@click.option("--record", metavar="FILE", type=click.Path(dir_okay=False), help="Also write what is seen to a file.")
@click.option(
    "--keep/--no-keep", default=True, show_default=True, help="Keep what was seen for hangtop replay when leaving."
)
def command(options: SessionOptions, choices: ScreenChoices, record: str | None, keep: bool) -> None:
    """Watch a running job, live.

    NODE is a host, user@host:port, an ssh alias, or a set such as gpu[001-064,070]. Without one, this machine is
    watched, without SSH.
    """
    from hangtop.cli.screen import watch

    watch(options, choices, record=record, keep=keep)
