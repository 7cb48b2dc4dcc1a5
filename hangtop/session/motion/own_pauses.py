"""Pauses that looks of ours make: while ptrace holds a process, its state is no state of the rank."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import inf

from collectors.samples.ranks import RankPulse
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.phrasing import rank_text
from hangtop.session.state.changes import Changes
from hangtop.session.state.job_state import NodeState

SHOWN_S = 2.5
"""For so long after a look that pauses a process, its samples may still tell of that pause."""
_GENTLE = frozenset({"nonblocking", "none"})
"""Ways to read stacks that hold nobody."""


def pauses(dump: StackDump) -> bool:
    """Whether this look held the process."""
    return dump.method not in _GENTLE


def begin(node: NodeState, pids: Iterable[int]) -> None:
    """A look that pauses these processes begins."""
    node.held_until.update((pid, inf) for pid in pids)


def end(node: NodeState, pids: Iterable[int], now: float) -> None:
    """It has answered, or failed."""
    node.held_until.update((pid, now) for pid in pids)


def told_by(changes: Changes, node: NodeState, dumps: Collection[StackDump]) -> None:
    """Learn of pauses from what the looks brought, all that a recording knows of them; take back what was said."""
    for dump in filter(pauses, dumps):
        node.held_until[dump.pid] = max(dump.at, node.held_until.get(dump.pid, dump.at))
        rank = node.ranks.get(dump.pid)
        if rank is not None:
            who, since = rank_text(rank.process.rank), dump.at - SHOWN_S
            changes.take_back("stopped", node.name, f"{who} is traced", since)
            changes.take_back("back", node.name, f"{who} is running again", since)


def without(node: NodeState, at: float, samples: Sequence[RankPulse]) -> list[RankPulse]:
    """The same samples, as they would be without our pauses."""
    return [_as_before(node, sample) if _held(node, sample, at) else sample for sample in samples]


def _held(node: NodeState, sample: RankPulse, at: float) -> bool:
    return sample.state == "t" and at <= node.held_until.get(sample.pid, -inf) + SHOWN_S


def _as_before(node: NodeState, sample: RankPulse) -> RankPulse:
    rank = node.ranks.get(sample.pid)
    newest = rank.looks.newest if rank is not None else None
    return sample._replace(state=newest.state if newest is not None and newest.state != "t" else "S")
