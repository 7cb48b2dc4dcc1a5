"""Pauses that looks of ours make: no state of the rank that was held, no waking, and no new beginning of its wait.

ptrace stops every thread of a process and lets them go on. What slept is put on a CPU for that, twice in each try of
py-spy's, and the kernel then says that it has slept since our look and not for the hour before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import inf

from collectors.samples.ranks import RankPulse
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.phrasing import rank_text
from hangtop.session.state.changes import Changes
from hangtop.session.state.job_state import NodeState, OwnPause

SHOWN_S = 2.5
"""For so long after a look that pauses a process, its samples may still tell of that pause."""
SLACK_S = 1.0
"""By so much the clocks of a sample and of a look may be apart."""
WAKES = 8
"""Voluntary switches that a look makes at the most: two a try, up to three tries; who made more went on by itself."""
_GENTLE = frozenset({"nonblocking", "none"})
"""Ways to read stacks that hold nobody."""


def pauses(dump: StackDump) -> bool:
    """Whether this look held the process."""
    return dump.method not in _GENTLE


def begin(node: NodeState, pids: Iterable[int], now: float) -> None:
    """A look that pauses these processes begins."""
    for pid in pids:
        node.held[pid] = _pause(node, pid, now, inf)


def end(node: NodeState, pids: Iterable[int], now: float) -> None:
    """It has answered, or failed."""
    for pid in pids:
        if (pause := node.held.get(pid)) is not None:
            node.held[pid] = replace(pause, ended=now)


def told_by(node: NodeState, dumps: Collection[StackDump]) -> None:
    """Learn of pauses from what the looks brought: all that a recording knows of them."""
    for dump in dumps:
        known = node.held.get(dump.pid)
        if pauses(dump) and (known is None or known.ended < dump.at):
            node.held[dump.pid] = _pause(node, dump.pid, dump.at, dump.at)


def untell(changes: Changes, node: NodeState, dumps: Collection[StackDump]) -> None:
    """Take back that somebody traces a rank: in a recording a look of ours is known only when it has answered."""
    for dump in dumps:
        rank = node.ranks.get(dump.pid)
        if rank is not None and pauses(dump):
            who, since = rank_text(rank.process.rank), dump.at - SHOWN_S
            changes.take_back("stopped", node.name, f"{who} is traced", since)
            changes.take_back("back", node.name, f"{who} is running again", since)


def ends(node: NodeState, pid: int, at: float, was: str) -> bool:
    """Whether a rank that was traced is running again because a look of ours is over."""
    pause = node.held.get(pid)
    return was == "t" and pause is not None and at <= pause.ended + SHOWN_S


def _pause(node: NodeState, pid: int, began: float, ended: float) -> OwnPause:
    """A pause, and what was known of the rank before it: in a recording newer samples tell of the pause itself."""
    known = node.held.get(pid)
    made = 0 if known is None else known.made
    seen = node.pulses.frozen().of(pid) if pid in node.ranks else ()
    before = next((pulse for at, pulse in seen if at < began), None)
    if before is None:
        return OwnPause(began, ended, None, 0, made, made)
    return OwnPause(began, ended, before.idle_since, before.voluntary_switches, made, made)


def without(node: NodeState, at: float, samples: Sequence[RankPulse]) -> list[RankPulse]:
    """The same samples, as they would be without our pauses."""
    return [
        sample if (pause := node.held.get(sample.pid)) is None else _as_before(node, pause, at, sample)
        for sample in samples
    ]


def _as_before(node: NodeState, pause: OwnPause, at: float, sample: RankPulse) -> RankPulse:
    shown = at <= pause.ended + SHOWN_S
    if sample.state == "t" and shown:
        rank = node.ranks.get(sample.pid)
        newest = rank.looks.newest if rank is not None else None
        sample = sample._replace(state=newest.state if newest is not None else "S")
    switched = sample.voluntary_switches - pause.switches - pause.earlier
    if shown and pause.switches and 0 < switched <= WAKES:
        pause = replace(pause, made=pause.earlier + switched)
        node.held[sample.pid] = pause
    if pause.made and switched >= 0:
        sample = sample._replace(voluntary_switches=sample.voluntary_switches - pause.made)
    if pause.idle_since is None or switched > WAKES:
        return sample
    since = sample.idle_since
    within = shown if since is None else pause.began - SLACK_S <= since <= pause.ended + SLACK_S
    return sample._replace(idle_since=pause.idle_since) if within else sample
