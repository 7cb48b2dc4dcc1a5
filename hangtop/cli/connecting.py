"""A session for a command that asks once: connected, then closed however the command ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import click

from hangtop.cli.answering import connected
from hangtop.cli.ask import asker
from hangtop.cli.status import Status
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session

TOLD = 8
"""Nodes of which it is said one by one why they could not be reached."""


class NoNode(click.ClickException):
    """No node could be reached."""

    exit_code = 3


def tell_unreached(session: Session) -> bool:
    """Say on standard error which nodes were never reached, and why; True when none was."""
    nodes = list(session.state.nodes.values())
    away = [node for node in nodes if node.seen_at is None and node.link != "limited"]
    for node in away[:TOLD]:
        click.echo(f"hangtop: {node.name}: {node.why or f'still {node.link}'}", err=True)
    if len(away) > TOLD:
        click.echo(f"hangtop: and {len(away) - TOLD} more nodes", err=True)
    return bool(nodes) and len(away) == len(nodes)


def need_a_node(session: Session) -> None:
    """The same for a command that can do nothing without one. Raises :class:`NoNode`."""
    if tell_unreached(session):
        raise NoNode("no node could be reached")


@asynccontextmanager
async def connected_session(
    options: SessionOptions, status: Status, needs: Collection[str] = ()
) -> AsyncIterator[Session]:
    """A session whose nodes have answered or failed, and told what the sources in ``needs`` know.

    Raises what :func:`~hangtop.session.live.live_session` raises.
    """
    from hangtop.session.live import live_session

    session = live_session(options)
    session.asker = asker(batch=options.batch)
    try:
        await session.start(watching=False)
        await connected(session, status.say, needs)
        yield session
    finally:
        status.clear()
        await session.close()
