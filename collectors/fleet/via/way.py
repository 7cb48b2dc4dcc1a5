"""What a way into nodes knows: which local program leads to a shell there, and what its complaints mean."""

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
        """Seconds that a shell may take to answer."""

    @property
    def channels(self) -> int:
        """Shells at a time on one node."""

    @property
    def at_once(self) -> int:
        """Shells that are opened at a time on all nodes together."""

    async def prepare(self, target: Target) -> None:
        """Before each connection: ask what may have changed since. Raises ``TransportError`` when there is no way."""

    def words(self, target: Target) -> list[str]:
        """The program and its arguments. Raises :class:`~collectors.fleet.transport.Refused`."""

    def terminal(self, target: Target) -> list[str]:
        """The same for a person at a terminal. Raises :class:`~collectors.fleet.transport.Refused`."""

    def advice(self, said: str) -> str:
        """What to do about a complaint of the program; empty when its own words are all that is known."""


def way_of(text: str | None, ssh_config: Path | None = None) -> Way | None:
    """The way that ``--via`` means, of those that need to know no more of nodes than their names; None without one.

    Raises :class:`~collectors.fleet.targets.chosen.TargetError`.
    """
    if text is None:
        return None
    from collectors.fleet.via.command import AnyCommand
    from collectors.fleet.via.openssh import OpenSsh

    return OpenSsh(ssh_config) if text == SSH else AnyCommand(text)
