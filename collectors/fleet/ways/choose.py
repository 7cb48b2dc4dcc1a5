"""From what ``--via`` says to a way into nodes that needs to know no more of them than their names."""

from __future__ import annotations

from pathlib import Path

from collectors.fleet.ways.command import AnyCommand
from collectors.fleet.ways.openssh import OpenSsh
from collectors.fleet.ways.way import Way

SSH = "ssh"
"""The system's own ``ssh``."""
SLURM = "slurm"
"""Steps of a Slurm job."""
KUBECTL = "kubectl"
"""The containers of pods."""


def way_of(text: str | None, ssh_config: Path | None = None) -> Way | None:
    """The way that is meant; None for hangtop's own SSH.

    Raises :class:`~collectors.fleet.targets.chosen.TargetError`.
    """
    if text is None:
        return None
    return OpenSsh(ssh_config) if text == SSH else AnyCommand(text)
