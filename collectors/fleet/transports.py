"""The transport of each node of a fleet, made in batches: the first nodes connect while others are looked up.

Looking thousands of hosts up in an ssh_config and in known_hosts takes half a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from collectors.fleet.local import Local
from collectors.fleet.ssh.asking import Questions
from collectors.fleet.streaming import LinkTransport
from collectors.fleet.targets.chosen import Target
from collectors.fleet.transport import Refused

if TYPE_CHECKING:
    from collectors.fleet.ssh.connector import Connector
    from collectors.fleet.via.way import Way


class Transports:
    """The transport of each node, or the reason why a node has none."""

    def __init__(self, questions: Questions, way: Way | None) -> None:
        """``way`` as :class:`~collectors.fleet.fleet.FleetOptions` has it."""
        self.by_name: dict[str, LinkTransport] = {}
        self.unusable: dict[str, str] = {}
        """Reasons, for nodes that the configuration makes unusable."""
        self.connector: Connector | None = None
        self._questions = questions
        self._way = way
        self._opening = asyncio.Semaphore(1 if way is None else way.at_once)

    def load(self, ssh_config: Path | None) -> None:
        """Import asyncssh and read the ssh_config, before :meth:`make`. Raises :class:`ConfigError`."""
        from collectors.fleet.ssh.config import SshConfig
        from collectors.fleet.ssh.connector import Connector

        self.connector = Connector(SshConfig.load(ssh_config), self._questions)

    def make(self, targets: Iterable[Target]) -> None:
        """Make the transports of some nodes."""
        for target in targets:
            try:
                self.by_name[target.name] = self._made(target)
            except Refused as error:
                self.unusable[target.name] = str(error)

    def _made(self, target: Target) -> LinkTransport:
        if target.local:
            return Local(target.name)
        if self._way is not None:
            from collectors.fleet.via.piped import Piped

            return Piped(target, self._way, self._opening)
        from collectors.fleet.ssh.node import Ssh

        assert self.connector is not None
        return Ssh(target.name, self.connector.settings(target.host, target.user, target.port), self.connector)
