"""Processes of a job whose rank is not known: what stands for the number, and how it is written.

Rules, pictures and tables keep ranks by their number. For a process without one a negative number stands that only it
has, the same in every picture: it is treated like any rank, and whatever is written of it says its node and pid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

_PIDS = 1 << 24
"""More than the kernel gives (PID_MAX_LIMIT is 2^22)."""
_WRITTEN = re.compile(r"([^\s,:]+):([0-9]+)")


class Unnumbered(int):
    """Stands for the rank of one process on one node; written ``node2:4711``."""

    node: str
    pid: int

    def __new__(cls, node: str, pid: int) -> Unnumbered:
        """The number that this process has in every picture."""
        of_node = int.from_bytes(blake2b(node.encode(), digest_size=5).digest(), "big")
        made = super().__new__(cls, pid % _PIDS - _PIDS * (of_node + 1))
        made.node, made.pid = node, pid
        return made

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override]
        """What a copy is made of."""
        return self.node, self.pid

    def __str__(self) -> str:
        """Node and pid."""
        return f"{self.node}:{self.pid}"

    def __format__(self, spec: str) -> str:
        """Like a text."""
        return format(str(self), spec)

    @property
    def text(self) -> str:
        """For people."""
        return f"process {self.pid} on {self.node}"


def numbered(ranks: Iterable[int]) -> tuple[int, ...]:
    """Those that are numbers of ranks, in their order."""
    return tuple(rank for rank in ranks if not isinstance(rank, Unnumbered))


def unnumbered(ranks: Iterable[int]) -> tuple[Unnumbered, ...]:
    """Those that stand for a process, by node and pid."""
    return tuple(sorted({r for r in ranks if isinstance(r, Unnumbered)}, key=lambda one: (one.node, one.pid)))


def parse_process(text: str) -> Unnumbered | None:
    """The process that ``node2:4711`` stands for; None for anything else."""
    found = _WRITTEN.fullmatch(text.strip())
    return None if found is None else Unnumbered(found[1], int(found[2]))
