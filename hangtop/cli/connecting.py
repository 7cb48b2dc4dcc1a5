"""Wait for the first words of the nodes, but not for long; say of those that gave none why."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

from collectors.fleet.sink import LinkChange
from collectors.fleet.transport import TransportError
from hangtop.cli.terminal import TerminalAsker
from hangtop.session.session import Session

CONNECT = 8.0
"""Seconds after which the nodes that have not answered are left out."""
STRAGGLERS = 2.0
"""Seconds that the first nodes wait for the last ones, once half of them are there."""
SETTLE, NEEDED = 0.6, 6.0
"""Seconds from a node's first tick that its slower sources are waited for; those that the command cannot do without."""
LOGIN_OPEN = "the login is open, but "
"""Why a node says nothing though it can be reached begins so."""
SOURCES = ("ranks", "host", "disks", "software", "network", "kernel", "logs", "gpus", "gpu_processes", "fabric")
"""Every source that all nodes have."""
STEP = 0.05
"""Seconds between two looks whether it can be decided."""


async def connected(session: Session, say: Callable[[str], None], needs: Collection[str] = ()) -> None:
    """Wait until every node has answered or failed; the last ones do not keep the others waiting for long.

    ``needs`` names sources whose first word a command cannot do without: such a command waits for the last nodes, too.
    """
    await all_answered(session, say, needs)
    await all_spoken(session, needs)


async def all_answered(session: Session, say: Callable[[str], None], needs: Collection[str] = ()) -> None:
    """The first half of it: every node has sent its first tick, which has its ranks, or failed."""
    began = time.monotonic()
    half_at: float | None = None
    while True:
        nodes = session.state.nodes.values()
        answered = [node for node in nodes if node.tick is not None]
        waiting = [node.name for node in nodes if node.tick is None and node.link in {"connecting", "live"}]
        now = time.monotonic()
        if isinstance(session.asker, TerminalAsker) and session.asker.asking:
            began, half_at = now, None  # whoever types a password is waited for
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
    """The second half: every source of the nodes has looked once, the slower ones if they are needed."""
    for sources, seconds in ((SOURCES, SETTLE), (needs, NEEDED)):
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            ticking = [node for node in session.state.nodes.values() if node.tick is not None and node.link == "live"]
            if all(source in node.sources for node in ticking for source in sources):
                break
            await asyncio.sleep(STEP)


def _give_up(session: Session, after: float) -> None:
    """Say of the nodes that are still connecting that they were not waited for; one that comes after all is welcome."""
    for node in list(session.state.nodes.values()):
        if node.link == "connecting" and not node.why:
            why = f"no answer within {after:.0f} s"
            if is_logged_in(session, node.name):
                why = f"{LOGIN_OPEN}Python there has said nothing within {after:.0f} s: is it overloaded?"
            session.link(LinkChange(node.name, "connecting", why, session.now()))


def is_logged_in(session: Session, node: str) -> bool:
    """Tell whether the connection to a node is open, though it may have said nothing yet."""
    try:
        session.transport(node)
    except TransportError:
        return False
    return True
