"""Processes of a job whose rank is unknown: their placeholder number and its text.

Rules, snapshots and tables keep ranks by number. A process without one has a negative number of its own, the same in
every snapshot: it is treated like any rank, and texts show its node and pid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

_PIDS = 1 << 24
"""More than any pid of the kernel (PID_MAX_LIMIT is 2^22)."""
_WRITTEN = re.compile(r"([^\s,:]+):([0-9]+)")


class Unnumbered(int):
    """Placeholder rank of one process on one node; written ``node2:4711``."""

    node: str
    pid: int

    def __new__(cls, node: str, pid: int) -> Unnumbered:
        """Make the number, which is the same in every snapshot."""
        of_node = int.from_bytes(blake2b(node.encode(), digest_size=5).digest(), "big")
        made = super().__new__(cls, pid % _PIDS - _PIDS * (of_node + 1))
        made.node, made.pid = node, pid
        return made

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override]
        """The arguments that make a copy."""
        return self.node, self.pid

    def __str__(self) -> str:
        """Node and pid."""
        return f"{self.node}:{self.pid}"

    def __format__(self, spec: str) -> str:
        """Format the text, not the number."""
        return format(str(self), spec)

    @property
    def text(self) -> str:
        """For people."""
        return f"process {self.pid} on {self.node}"


def numbered(ranks: Iterable[int]) -> tuple[int, ...]:
    """The known ranks among these, in their order."""
    return tuple(rank for rank in ranks if not isinstance(rank, Unnumbered))


def unnumbered(ranks: Iterable[int]) -> tuple[Unnumbered, ...]:
    """The placeholders among these, by node and pid."""
    return tuple(sorted({r for r in ranks if isinstance(r, Unnumbered)}, key=lambda rank: (rank.node, rank.pid)))


def parse_process(text: str) -> Unnumbered | None:
    """The process that ``node2:4711`` stands for; None for anything else."""
    match = _WRITTEN.fullmatch(text.strip())
    return None if match is None else Unnumbered(match[1], int(match[2]))
