"""From what ``--via`` says to a way into nodes that needs to know no more of them than their names."""

from __future__ import annotations

from collectors.fleet.ways.command import AnyCommand
from collectors.fleet.ways.way import Way

SSH = "ssh"
"""The way that is taken without being asked for: hangtop's own connections, one a node."""
SLURM = "slurm"
"""Steps of a Slurm job."""
KUBECTL = "kubectl"
"""The containers of pods."""


def way_of(text: str | None) -> Way | None:
    """The way that is meant; None for SSH. Raises :class:`~collectors.fleet.targets.error.TargetError`."""
    return None if text in (None, SSH) else AnyCommand(text)
