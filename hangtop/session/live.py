"""A live feed: the fleet's connections to the nodes of a job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from collectors.fleet.questions import Question
from collectors.fleet.targets import Target, resolve
from collectors.fleet.transport import Transport, TransportError
from collectors.samples.control import Settings
from hangtop import __version__
from hangtop.session.aside import aside
from hangtop.session.feed import Receiver
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session

if TYPE_CHECKING:
    from collectors.fleet.fleet import Fleet


class LiveFeed:
    """Delivers what the nodes send, as long as it is started."""

    live = True
    connected = True

    def __init__(self, targets: Sequence[Target], options: SessionOptions) -> None:
        self._targets = tuple(targets)
        self._options = options
        self._fleet: Fleet | None = None

    def now(self) -> float:
        """The wall clock."""
        return time.time()

    async def start(self, receiver: Receiver) -> None:
        """Start connecting to every node."""
        # Imported here: the screen draws its first frame before anything of the connections is loaded.
        from collectors.fleet.fleet import Fleet, FleetOptions

        options = self._options
        self._fleet = Fleet(
            self._targets,
            sink=receiver,
            asker=_AskThrough(receiver),
            options=FleetOptions(
                settings=receiver.settings(),
                ssh_config=options.ssh_config,
                batch=options.batch,
                python=options.python,
                version=__version__,
            ),
        )
        await self._fleet.prepare(aside)
        await self._fleet.start()

    async def close(self) -> None:
        """End every connection."""
        if self._fleet is not None:
            await self._fleet.close()
            self._fleet = None

    def transport(self, node: str) -> Transport:
        """The open connection to a node. Raises :class:`TransportError`."""
        if self._fleet is None:
            raise TransportError(f"{node}: not connected yet")
        return self._fleet.transport(node)

    def python(self, node: str) -> str:
        """The interpreter that was found on a node."""
        if self._fleet is None:
            raise TransportError(f"{node}: not connected yet")
        return self._fleet.python(node)

    def settings(self, node: str | None, settings: Settings) -> None:
        """Send new settings to one node, or to all."""
        if self._fleet is not None:
            self._fleet.settings(node, settings)


class _AskThrough:
    """Puts a question to whoever answers for the session at that moment."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def ask(self, question: Question) -> str | None:
        """Put the question."""
        return await self._receiver.asker.ask(question)


def live_session(options: SessionOptions) -> Session:
    """A session over the nodes that the options name.

    Raises :class:`~collectors.fleet.targets.TargetError` when they name none that can be meant.
    """
    targets = resolve(options.targets, hostfile=options.hostfile, slurm=options.slurm)
    return Session(options, feed=LiveFeed(targets, options))
