"""Who waits for whom, folded: ranks at one point make a box, and an edge leads to the box that it waits for.

Made of what the verdict was given upon: whom its first finding blames, the points of the graph of waits, the peers that
frames tell, and the operations that recorders, watchdogs, RAS and NCCL's log say are open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from hangtop.diagnosis.collectives.progress import WaitEdge
from hangtop.diagnosis.collectives.sources import waits_of
from hangtop.diagnosis.finding import NAME_NOBODY, Finding, WaitBox
from hangtop.diagnosis.stacks.states import Meaning
from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.points import by_frames
from hangtop.diagnosis.waits.rank_status import WAITS, RankStatus

MANY = 24
"""Boxes into which the ranks at one point are told apart, at the most."""
_STATES = {
    "gone": "is gone", "missing": "is on no node in view", "stopped": "is stopped",
    "uninterruptible": "is stuck in the kernel", "unseen": "was not looked at",
    "leaving": "has left training", "on_gpu": "waits for its own GPU", "working": "is elsewhere", "waiting": "waits",
}  # fmt: skip


def wait_boxes(job_status: JobStatus, findings: Sequence[Finding]) -> tuple[WaitBox, ...]:
    """Boxes of a job that stands still, those that are blamed first; none where nobody waits."""
    if job_status.graph is None:
        return ()
    blamed = set(findings[0].ranks) if findings and findings[0].kind not in NAME_NOBODY else set()
    every = (*job_status.job.once(waits_of), *by_frames(job_status.statuses.values()))
    waits = [edge for edge in every if edge.certain]
    awaited: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for edge in waits:
        awaited[edge.waiter].add(edge.for_ranks)  # thousands that wait for the same thousands share one tuple
    groups = _groups(job_status, job_status.graph, blamed, awaited)
    place_of = {status.rank: place for place, group in enumerate(groups) for status in group}
    held_up = tuple(place for place, group in enumerate(groups) if group[0].rank in blamed)
    edges: dict[int, dict[int, str]] = defaultdict(dict)
    for edge in waits:
        if (own := place_of.get(edge.waiter)) is not None:
            for place in {place_of[rank] for rank in edge.for_ranks if rank in place_of} - {own}:
                edges[own].setdefault(place, _operation(edge))
    return tuple(
        WaitBox(
            ranks=tuple(status.rank for status in group),
            nodes=tuple(sorted({status.node for status in group} - {""})),
            doing=_doing(group[0]),
            blamed=place in held_up,
            waits_for=tuple(sorted(edges[place]))
            or (held_up if group[0].state in WAITS and place not in held_up else ()),
            operation=next(iter(edges[place].values()), ""),
        )
        for place, group in enumerate(groups)
    )


def _operation(edge: WaitEdge) -> str:
    """``all_reduce #41 in dp``; a group that is a bare number would be read as a rank, or as one more count."""
    number = "" if edge.seq is None else f" #{edge.seq}"
    group = f"group {edge.group}" if edge.group[:1].isdigit() else edge.group
    return f"{edge.operation}{number}{f' in {group}' if group else ''}"


def _groups(
    job_status: JobStatus, graph: WaitGraph, blamed: set[int], awaited: Mapping[int, set[tuple[int, ...]]]
) -> list[tuple[RankStatus, ...]]:
    """Ranks at one point each: the blamed ones, then the points of the graph, then the ranks at neither.

    The stages of a pipeline all wait at one line: ranks at one point are told apart by the ranks for which they wait.
    Those of which no source says for which they wait stay with most of their point.
    """
    every = job_status.statuses.values()
    first, last = 0, len(every) + 1
    place_of = dict.fromkeys(blamed, first)
    for number, point in enumerate((*graph.accused, *graph.points), 1):
        place_of = {one.rank: number for one in point.members} | place_of
    points: dict[tuple[int, str, str], list[RankStatus]] = defaultdict(list)
    for one in sorted(every, key=lambda one: place_of.get(one.rank, last)):
        place = place_of.get(one.rank, last)
        points[place, *((one.state, one.where) if place in (first, last) else ("", ""))].append(one)
    groups = []
    for members in points.values():
        parts: dict[frozenset[tuple[int, ...]], list[RankStatus]] = defaultdict(list)
        for one in members:
            parts[frozenset(awaited.get(one.rank, ()) if one.rank not in blamed else ())].append(one)
        silent = parts.pop(frozenset(), [])
        apart = list(parts.values()) if 1 < len(parts) <= MANY else [members]
        if apart != [members]:
            max(apart, key=len).extend(silent)
        groups += [tuple(sorted(part, key=lambda one: one.rank)) for part in apart]
    return groups


def _doing(status: RankStatus) -> str:
    """``waits in all_reduce at train (train.py:31)``, ``in read_shard (data.py:88)``."""
    doing, state = status.activity, _STATES.get(status.state, status.state)
    if status.state == "working" and status.where:
        return f"in {status.where}"
    if status.state == "waiting" and doing is not None and doing.op:
        return f"{state} in {doing.op} at {status.where}"
    if status.state == "missing" and status.node:
        return "is out of reach with its node"
    if doing is not None and not doing.where and doing.meaning is Meaning.CLOSED:
        return "could not be looked at" if status.state == "unseen" else state
    return f"{state}: {status.where}" if status.where else state
