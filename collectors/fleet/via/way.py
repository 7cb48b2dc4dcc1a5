"""The interface of ``--via``: the local program that gives a shell on a node, and advice for its error messages."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from collectors.fleet.targets.chosen import Target

SSH = "ssh"
"""The system's own ``ssh``."""
SLURM = "slurm"
"""Steps of a Slurm job."""
KUBECTL = "kubectl"
"""The containers of pods."""


class Way(Protocol):
    """A program of this machine whose standard streams are those of a POSIX shell on the node."""

    @property
    def opening(self) -> float:
        """Seconds until a shell must answer."""

    @property
    def channels(self) -> int:
        """Shells at once on one node."""

    @property
    def at_once(self) -> int:
        """Shells that are opened at once on all nodes together."""

    async def prepare(self, target: Target) -> None:
        """Prepare a connection, such as find the present pod. Raises ``TransportError`` when the node is not there."""

    def words(self, target: Target) -> list[str]:
        """The program and its arguments. Raises :class:`~collectors.fleet.transport.Refused`."""

    def terminal(self, target: Target) -> list[str]:
        """The same with a terminal. Raises :class:`~collectors.fleet.transport.Refused`."""

    def advice(self, said: str) -> str:
        """Advice for an error message of the program; empty for none."""


def way_of(text: str | None, ssh_config: Path | None = None) -> Way | None:
    """The way of ``--via ssh`` and ``--via CMD``; None without ``--via``.

    Raises :class:`~collectors.fleet.targets.chosen.TargetError`.
    """
    if text is None:
        return None
    from collectors.fleet.via.command import AnyCommand
    from collectors.fleet.via.openssh import OpenSsh

    return OpenSsh(ssh_config) if text == SSH else AnyCommand(text)
