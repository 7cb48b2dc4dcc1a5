"""A session for a command that asks once: connected, then closed however the command ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from hangtop.cli.ask import asker
from hangtop.cli.status import Status
from hangtop.cli.triage import connected
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session


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
