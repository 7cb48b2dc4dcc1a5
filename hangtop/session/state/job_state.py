"""The latest state of everything, as streams write it and screens draw it.

One writer (the session's event loop), any number of readers in the same thread. Readers never change anything. What
moves is kept for about a minute: what must be kept for longer is a recording's business.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.logs import CommProgress, LogEvent, LogLines
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.looks import MOST_LOOKS, Look
from hangtop.diagnosis.node import Node
from hangtop.session.state.changes import Changes
from hangtop.session.state.kept import Kept

LEAST_LOOKS, LOOKS_OF_ALL = 10, 8192
"""Looks at one GPU or rank that are kept in any job, and those at one of each node together: each takes 0.6 KB."""


@dataclass(slots=True)
class JobState:
    """The whole picture."""

    started: float = 0.0
    nodes: dict[str, Node] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)
    log_lines: Kept[LogLines] = field(default_factory=Kept)
    """(node, lines) as they came."""
    events: Kept[LogEvent] = field(default_factory=Kept)
    """(node, event) with times on this machine's clock."""
    progress: dict[tuple[str, str, int], CommProgress] = field(default_factory=dict)
    """By (node, comm, rank in it)."""
    stacks: deque[tuple[str, StackDump]] = field(default_factory=lambda: deque(maxlen=65_536))
    recorders: dict[int, RecorderDump] = field(default_factory=dict)
    ras: deque[Look[RasReport]] = field(default_factory=lambda: deque(maxlen=16))

    @property
    def looks_kept(self) -> int:
        """Looks at one GPU or rank that are kept: fewer in a large job."""
        return max(LEAST_LOOKS, min(MOST_LOOKS, LOOKS_OF_ALL // max(1, len(self.nodes))))


THINGS = {
    "ranks": 4096, "gpus": 256, "ports": 512, "interfaces": 2048, "port_uses": 256, "log_files": 2048, "steps": 2048,
    "disks": 256, "sources": 64, "faults": 256, "launchers": 64,
}  # fmt: skip
"""Things of one kind on one node; more than any node has."""


def surplus(node: Node) -> str:
    """Let go of what is too much on a node, the latest first; says what that was, empty for nothing."""
    told = []
    for name, most in THINGS.items():
        things = getattr(node, name)
        if len(things) > most:
            for key in list(things)[most:]:
                del things[key]
            told.append(f"{name.replace('_', ' ')} beyond {most:,}")
    if told:
        node.roster += 1
    return ", ".join(told)
