"""What is about to be done to nodes or job: in one line for a person, and exactly."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Intent:
    """Shown before a yes is asked for."""

    brief: str
    """Where, what, how long, what it loads: ``2 nodes, all_reduce to 512 MiB, about 10 s, nccl, loads the network``."""
    command: str
    """The exact commands, several by line breaks."""
