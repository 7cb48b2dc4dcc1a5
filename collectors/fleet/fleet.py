"""All nodes of a session: their links, and the transports that run commands on single nodes.

This module is cheap to import: :meth:`Fleet.start` imports asyncssh in a thread, and only when a node needs SSH.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from collectors.fleet import payload
from collectors.fleet.node_link import AGENT, NodeLink
from collectors.fleet.sink import Asker, Sink
from collectors.fleet.targets.chosen import Target
from collectors.fleet.transport import Transport, TransportError
from collectors.fleet.via.piped import Piped
from collectors.fleet.via.way import AT_ONCE, HERE, Way
from collectors.samples.stream import Settings

if TYPE_CHECKING:
    from collectors.fleet.ssh.connector import Connector

MOST_FILES = 16384


class Fleet:
    """Keeps nodes connected until :meth:`close`."""

    def __init__(
        self, targets: Sequence[Target], settings: Settings, *, sink: Sink, ask: Asker, way: Way | None = None,
        ssh_config: Path | None = None, python: str | None = None,
    ) -> None:  # fmt: skip
        """The fleet sets the ``phase`` of each node's settings; with ``way`` None it uses hangtop's own SSH.

        ``ssh_config`` is read instead of ``~/.ssh/config`` and the system's; ``python`` is the interpreter on the
        nodes, None to search each node's PATH.
        """
        self._targets = tuple(targets)
        self._settings = settings
        self._sink = sink
        self._ask = ask
        self._way = way
        self._ssh_config = ssh_config
        self._python = python
        self._links: dict[str, NodeLink] = {}
        self._connector: Connector | None = None
        """Opens the SSH connections of all nodes; None if no node needs it."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes, in the order of the targets."""
        return tuple(target.name for target in self._targets)

    async def start(self) -> None:
        """Start to connect to every node, without waiting for any. Raises :class:`SshConfigError`."""
        await asyncio.to_thread(self._prepare)
        allow_files()
        opening = asyncio.Semaphore(AT_ONCE)
        for number, target in enumerate(self._targets):
            settings = self._settings._replace(phase=number / len(self._targets))
            python = self._python or (sys.executable if target.local else None)
            link = NodeLink(self._transport(target, opening), self._sink, settings, python)
            self._links[target.name] = link
            link.start()

    def _prepare(self) -> None:
        """Do the slow work, in a thread: pack the payload, import asyncssh, read the ssh_config."""
        payload.pack(AGENT)
        if self._way is None and any(not target.local for target in self._targets):
            from collectors.fleet.ssh.connector import Connector

            self._connector = Connector(self._ssh_config, self._ask)

    def _transport(self, target: Target, opening: asyncio.Semaphore) -> Transport:
        if (way := HERE if target.local else self._way) is not None:
            return Piped(target, way, opening)
        from collectors.fleet.ssh.node import Ssh

        assert self._connector is not None
        return Ssh(target, self._connector)

    async def close(self) -> None:
        """Close all links; the agents on the nodes end."""
        await asyncio.gather(*(link.close() for link in self._links.values()))
        self._links.clear()
        if self._connector is not None:
            await self._connector.close()

    def transport(self, node: str) -> Transport:
        """The open transport of a node. Raises :class:`TransportError` if the node is not connected or not known."""
        return self._link(node).transport

    def retry(self, node: str) -> None:
        """Connect to a lost node now; asks again about a host key that was not accepted."""
        self._link(node).retry()

    def settings(self, node: str | None, settings: Settings) -> None:
        """Change the settings of one node, or of all; each keeps its phase."""
        for name, link in self._links.items():
            if node in (None, name):
                link.configure(settings._replace(phase=link.settings.phase))

    def _link(self, node: str) -> NodeLink:
        link = self._links.get(node)
        if link is None:
            raise TransportError(f"{node}: no such node here")
        return link


def allow_files() -> None:
    """Raise the soft limit of open files, often 1,024, towards the hard limit: each node takes a socket."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # a sandbox may forbid it; connecting then reports the limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
