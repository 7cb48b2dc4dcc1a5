"""Ranks that may not be looked at, and would write their stacks themselves on a signal: who, and what is sent.

They opened that way by ``hangtop.inside.start()``. Whoever is at the keys is told what will be sent, and says yes or
no.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.phrasing import count, ranks_text
from hangtop.session.options import SessionOptions
from hangtop.session.state.job_state import JobState

REFUSED = ("denied", "no-py-spy", "unsupported")
"""First words of errors of a look that another way may do better."""
COST = (
    "Each writes the stacks of all its threads into memory (faulthandler) and goes on within milliseconds. "
    "A system call that it is in may be interrupted, as by any signal, and is begun anew by the kernel or the program."
)


class Signallable(Protocol):
    """What this needs of a session."""

    options: SessionOptions

    @property
    def state(self) -> JobState:
        """The latest of everything."""


@dataclass(frozen=True, slots=True)
class RankToSignal:
    """One rank that could be signalled."""

    node: str
    pid: int
    rank: int
    number: int
    """Of the signal that its page names."""


@dataclass(frozen=True, slots=True)
class SignalOrder:
    """All that could be."""

    ranks_to_signal: tuple[RankToSignal, ...]

    @property
    def ranks(self) -> set[int]:
        """Their numbers."""
        return {one.rank for one in self.ranks_to_signal}

    def brief(self) -> str:
        """In one line."""
        nodes = len({one.node for one in self.ranks_to_signal})
        return f"a signal to {ranks_text(self.ranks)} on {count(nodes, 'node')}, which py-spy may not look at"

    def command(self) -> str:
        """What is sent, node by node."""
        by_node: dict[tuple[str, int], list[str]] = {}
        for one in self.ranks_to_signal:
            by_node.setdefault((one.node, one.number), []).append(str(one.pid))
        return "\n".join(f"{node}: kill -{number} {' '.join(pids)}" for (node, number), pids in by_node.items())


def to_signal(session: Signallable, dumps: Iterable[tuple[str, StackDump]]) -> SignalOrder | None:
    """Of a look those whose stacks were refused and who named a signal; None for nobody, or in a read-only session."""
    if session.options.read_only:
        return None
    found: dict[tuple[str, int], RankToSignal] = {}
    for name, dump in dumps:
        node = session.state.nodes.get(name)
        rank = None if node is None else node.ranks.get(dump.pid)
        refused = not dump.threads and dump.error.partition(":")[0] in REFUSED
        if refused and rank is not None and rank.opened is not None and rank.opened.signal and rank.gone_at is None:
            found[name, dump.pid] = RankToSignal(name, dump.pid, rank.process.rank, rank.opened.signal)
    return SignalOrder(tuple(found.values())) if found else None
