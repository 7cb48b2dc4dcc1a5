"""Which rank waits for which: one typed edge for every operation that a rank launched and others did not.

The interface between what libraries say of collectives and the graph of waits. An edge speaks of the operation, not of
the host: a rank whose receive waits may have posted it early and be busy with something else, which its stack tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Why = Literal["not launched", "not dumped", "behind"]
"""``behind``: the other side launched it too, after something that is itself open."""


@dataclass(frozen=True, slots=True)
class WaitEdge:
    """One rank's operation cannot end before others do something. Ranks are global, ``for_ranks`` sorted."""

    waiter: int
    for_ranks: tuple[int, ...]
    group: str
    """Name of the group, as a reader knows it; the communicator for RAS and NCCL's log."""
    operation: str
    """``all_reduce``; ``send`` and ``recv`` for those of two ranks."""
    seq: int | None
    source: str
    certain: bool
    """False where it only may be so: no dump of the others, a launch behind another, counts that are not sure."""
    why: Why = "not launched"
    since: float | None = None
    """When the waiter launched it, seconds since the epoch on its own clock."""

    @property
    def p2p(self) -> bool:
        """True for a send or receive."""
        return self.operation in ("send", "recv")
