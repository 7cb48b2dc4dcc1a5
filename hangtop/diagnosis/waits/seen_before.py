"""Where ranks were met while the job went on: of two halves, the one that waits where nobody ever was left the loop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.stacks import activity
from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.tables.thresholds import STOOD_STILL_S
from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.points import points_of
from hangtop.diagnosis.waits.rank_status import RankStatus

MOST_RANKS = 64
"""Ranks of a job whose looks of the past are read: of more than that halves are seldom of one size."""
STOPPED_WITHIN_S = 2.0
"""Seconds by which it is not known when exactly a job stopped: who was looked at then was on its way, or there."""
Function = tuple[str, str]
"""Name and file of the innermost function of the program's own."""


def told_by_the_past(job: Job, graph: WaitGraph) -> WaitGraph:
    """The same graph, or one that names a half: nothing else tells which of two as large as each other is the odd one.

    Both were met, while the job went on, in the function in which the one half waits, and nobody was met where the
    other is. A validation that comes for the first time looks the same, so that this is a guess.
    """
    if not _undecided(graph) or not job.live or (job.stood_still or 0.0) < STOOD_STILL_S:
        return graph
    halves = _halves((*graph.waiters, *graph.culprits))
    if halves is None:
        return graph
    before = _met_before(job)
    for (here, usual), (there, new) in (halves, halves[::-1]):
        stay = all(any(here in before[one.rank] for one in half) for half in (usual, new))
        if stay and not any(there in functions for functions in before.values()) and not _may_print(new):
            accused, others = points_of(new), points_of(usual)
            return replace(
                graph, pattern="mismatch", waiters=tuple(usual), culprits=tuple(new), points=(*others, *accused),
                accused=accused, tied=False, by_past=True,
            )  # fmt: skip
    return graph


def _may_print(half: Sequence[RankStatus]) -> bool:
    """Rank 0 alone asks its GPU for a figure now and then, and waits there for what the others wait in."""
    return [(one.rank, one.activity.kind if one.activity else "") for one in half] == [(0, "device")]


def _undecided(graph: WaitGraph) -> bool:
    return len(graph.waiters) + len(graph.culprits) <= MOST_RANKS and (
        graph.pattern == "stalled" or (graph.pattern == "mismatch" and graph.tied)
    )


def _halves(waiting: Iterable[RankStatus]) -> tuple[tuple[Function, list[RankStatus]], ...] | None:
    """Two parties of one size, each in a function of its own."""
    parties: dict[Function, list[RankStatus]] = defaultdict(list)
    for one in waiting:
        function = None if one.activity is None or one.activity.error else _function(one.activity)
        if function is None:
            return None
        parties[function].append(one)
    both = tuple(parties.items())
    return both if len(both) == 2 and len(both[0][1]) == len(both[1][1]) else None


def _met_before(job: Job) -> dict[int, set[Function]]:
    """Functions in which each rank was met before the job stopped."""
    stopped = job.now - (job.stood_still or 0.0) - STOPPED_WITHIN_S
    ranks = {(rank.node, rank.process.pid): rank.rank for rank in job.ranks}
    met: dict[int, set[Function]] = defaultdict(set)
    for node, dump in zip(job.stack_nodes, job.stacks, strict=False):
        rank = ranks.get((node, dump.pid))
        if rank is None or dump.at >= stopped or dump.method == "native" or not dump.threads:
            continue
        function = _function(activity([dump]))
        if function is not None:
            met[rank].add(function)
    return met


def _function(doing: Activity) -> Function | None:
    return None if doing.frame is None else (doing.frame.name, doing.frame.file)


def told(graph: WaitGraph) -> Sequence[str]:
    """What of the past sets the half apart that is accused; nothing where it does not decide."""
    if not graph.by_past:
        return ()
    where = graph.points[0].where
    return (f"while the job went on, ranks of both sides were met where the others wait ({where}), and nobody there",)
