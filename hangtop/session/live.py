"""A live feed: the fleet's connections to the nodes of a job."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from collectors.fleet.ssh.asking import Question
from collectors.fleet.transport import Transport, TransportError
from collectors.fleet.via.kubectl import Kubectl
from collectors.samples.control import Settings
from hangtop import __version__
from hangtop.session.aside import aside
from hangtop.session.feed import Receiver
from hangtop.session.options import SessionOptions
from hangtop.session.reaching import Reach, reach
from hangtop.session.session import Session

if TYPE_CHECKING:
    from collectors.fleet.fleet import Fleet


class LiveFeed:
    """Delivers what the nodes send, as long as it is started."""

    live = True
    connected = True

    def __init__(self, reached: Reach, options: SessionOptions) -> None:
        self._reach = reached
        self._options = options
        self._fleet: Fleet | None = None
        self._asking: asyncio.Task[None] | None = None

    def now(self) -> float:
        """The wall clock."""
        return time.time()

    async def start(self, receiver: Receiver) -> None:
        """Start connecting to every node."""
        # Imported here: the screen draws its first frame before anything of the connections is loaded.
        from collectors.fleet.fleet import Fleet, FleetOptions

        options = self._options
        self._fleet = Fleet(
            self._reach.targets,
            sink=receiver,
            asker=_AskThrough(receiver),
            options=FleetOptions(
                settings=receiver.settings(),
                ssh_config=options.ssh_config,
                batch=options.batch,
                way=self._reach.way,
                python=options.python,
                version=__version__,
            ),
        )
        for note in self._reach.notes:
            receiver.asker.tell(note)
        await self._fleet.start(aside)
        if self._reach.plan is not None:
            receiver.located(self._reach.plan)
        self._asking = asyncio.create_task(self._ask_schedulers(receiver), name="hangtop schedulers")

    async def _ask_schedulers(self, receiver: Receiver) -> None:
        """Ask whoever gave the job its nodes about them: where they hang, once, and Slurm how they are, for ever."""
        if self._reach.parts:
            from collectors.fleet.targets import slurm_topology
            from collectors.fleet.targets.slurm_nodes import keep_asking

            async with asyncio.TaskGroup() as both:
                both.create_task(keep_asking(self._reach.parts, receiver.scheduled))
                receiver.located(await slurm_topology.ask())
        elif isinstance(self._reach.way, Kubectl):
            from collectors.fleet.targets import pod_topology

            way = self._reach.way
            await pod_topology.keep_telling(lambda: way.hosts, receiver.located)

    async def close(self) -> None:
        """End every connection."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})
            self._asking = None
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

    def retry(self, node: str) -> None:
        """Try to reach a lost node now, and ask again what was declined."""
        if self._fleet is None:
            raise TransportError(f"{node}: not connected yet")
        self._fleet.retry(node)

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

    def tell(self, text: str) -> None:
        """Pass it on."""
        self._receiver.asker.tell(text)


def live_session(options: SessionOptions) -> Session:
    """A session over the nodes that the options name.

    Raises :class:`~collectors.fleet.targets.chosen.TargetError` when they name none that can be meant.
    """
    found = reach(options)
    known = replace(options, logs=(*options.logs, *(log for log in found.logs if log not in options.logs)))
    return Session(known, feed=LiveFeed(found, known))
