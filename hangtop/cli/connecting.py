"""Open a session for a command, wait a bounded time for the first samples of the nodes, and report missing nodes."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import click

from collectors.fleet.sink import LinkChange
from hangtop.cli.terminal import Status, trusts
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session

CONNECT = 8.0
"""Seconds after which the command goes on without the nodes that have not answered."""
STRAGGLERS = 2.0
"""Seconds to wait for the remaining nodes once half of them have answered."""
SETTLE, NEEDED = 0.6, 6.0
"""Seconds to wait for a node's slower sources after its first tick; for sources that the command needs."""
AWAITED = ("ranks", "host", "disks", "software", "network", "kernel", "logs", "gpus", "fabric")
"""Sources whose first look a one-shot command waits for."""
STEP = 0.05
"""Seconds between two checks whether the wait is over."""
MOST = 8
"""Most nodes for which the reason is printed one by one."""


class NoNodeError(click.ClickException):
    """No node could be reached."""

    exit_code = 3


@asynccontextmanager
async def opened(
    options: SessionOptions, *, watching: bool = False, record: str | None = None
) -> AsyncIterator[tuple[Session, Status]]:
    """A running session and a line of progress; both end with the command.

    Raises what :func:`~hangtop.session.live.LiveSession` raises.
    """
    from hangtop.session.live import LiveSession

    session, status = LiveSession(options), Status()
    session.ask_person = trusts if sys.stderr.isatty() else None
    if record is not None:
        session.recordings.record(Path(record))
    try:
        await session.start(watching=watching)
        yield session, status
    finally:
        status.clear()
        await session.close()


async def all_answered(session: Session, say: Callable[[str], None], needs: Collection[str] = ()) -> None:
    """Wait until every node has failed or has sent its first tick, which contains its ranks.

    Slow nodes delay the others only briefly, unless the command ``needs`` certain sources.
    """
    began = time.monotonic()
    half_at: float | None = None
    while True:
        nodes = session.state.nodes.values()
        answered = [node for node in nodes if node.tick is not None]
        waiting = [node.name for node in nodes if node.tick is None and node.link in {"connecting", "live"}]
        now = time.monotonic()
        if Status.asking:
            began, half_at = now, None  # a question is on the terminal
        if nodes and len(answered) * 2 >= len(nodes) and half_at is None:
            half_at = now
        if nodes and not waiting:
            return
        late = half_at is not None and now - half_at > STRAGGLERS and not needs
        if now - began > CONNECT or late:
            _give_up(session, now - began)
            return
        say(f"{len(answered)} of {len(nodes)} nodes; waiting for {', '.join(waiting[:3])}{' …' * (len(waiting) > 3)}")
        await asyncio.sleep(STEP)


async def all_spoken(session: Session, needs: Collection[str] = ()) -> None:
    """Wait until every source of the nodes has looked once; longer for those in ``needs``."""
    for sources, seconds in ((AWAITED, SETTLE), (needs, NEEDED)):
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            ticking = [node for node in session.state.nodes.values() if node.tick is not None and node.link == "live"]
            if all(node.has_heard(source) for node in ticking for source in sources):
                break
            await asyncio.sleep(STEP)


def _give_up(session: Session, after: float) -> None:
    """Note for each node that is still connecting why the command goes on; a node that answers later still counts."""
    for node in list(session.state.nodes.values()):
        if node.link == "connecting":
            why = f"no answer within {after:.0f} s: is it overloaded, or far away?"
            session.link(LinkChange(node.name, "connecting", why, session.now()))


def need_a_node(session: Session) -> None:
    """Print the unreached nodes with reasons to standard error. Raises :class:`NoNodeError` if no node was reached."""
    every = list(session.state.nodes.values())
    away = [node for node in every if node.seen_at is None and node.link != "limited"]
    for node in away[:MOST]:
        click.echo(f"hangtop: {node.name}: {node.why or f'still {node.link}'}", err=True)
    if len(away) > MOST:
        click.echo(f"hangtop: and {len(away) - MOST} more nodes", err=True)
    if every and len(away) == len(every):
        raise NoNodeError("no node could be reached")
