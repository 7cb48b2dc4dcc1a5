"""Who waits for whom, folded: ranks at one point make a box, and an edge leads to the box that it waits for.

Made of what the verdict was given upon: whom its first finding blames, the points of the graph of waits, the peers that
frames tell, and the operations that recorders, watchdogs, RAS and NCCL's log say are open.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from hangtop.diagnosis.collectives.progress import WaitEdge
from hangtop.diagnosis.finding import NAME_NOBODY, Finding, WaitBox
from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import WAITS, RankStatus, State

_STATES: dict[State, str] = {
    "gone": "is gone", "missing": "is on no node in view", "stopped": "is stopped",
    "uninterruptible": "is stuck in the kernel", "unseen": "was not looked at", "leaving": "has left training",
    "on_gpu": "waits for its own GPU", "working": "is elsewhere", "waiting": "waits",
}  # fmt: skip


def wait_boxes(job_status: JobStatus, findings: Sequence[Finding]) -> tuple[WaitBox, ...]:
    """Boxes of a job that stands still, those that are blamed first; none where nobody waits."""
    if job_status.graph is None:
        return ()
    blamed = set(findings[0].ranks) if findings and findings[0].kind not in NAME_NOBODY else set()
    edges: dict[int, list[WaitEdge]] = defaultdict(list)
    for edge in job_status.edges:
        edges[edge.waiter].append(edge)
    groups = [*_groups(job_status, job_status.graph, blamed, edges)]
    place_of = {one.rank: place for place, group in enumerate(groups) for one in group}
    held_up = tuple(place for place, group in enumerate(groups) if group[0].rank in blamed)
    boxes = []
    for place, group in enumerate(groups):
        ahead: dict[int, str] = {}
        for edge in (edge for one in group for edge in edges.get(one.rank, ())):
            for other in {place_of[rank] for rank in edge.for_ranks if rank in place_of} - {place}:
                ahead.setdefault(other, _operation(edge))
        waits = group[0].state in WAITS and place not in held_up
        boxes.append(
            WaitBox(
                ranks=tuple(one.rank for one in group), nodes=tuple(sorted({one.node for one in group} - {""})),
                doing=_doing(group[0]), blamed=place in held_up,
                waits_for=tuple(sorted(ahead)) or (held_up if waits else ()), operation=next(iter(ahead.values()), ""),
            )
        )  # fmt: skip
    return tuple(boxes)


def _groups(
    job_status: JobStatus, graph: WaitGraph, blamed: set[int], edges: dict[int, list[WaitEdge]]
) -> Iterator[list[RankStatus]]:
    """Ranks at one point each: the blamed ones, then the points of the graph, then the ranks at neither.

    The stages of a pipeline all wait at one line: ranks at one point are told apart by the ranks for which they wait.
    Those of which no source says for which they wait stay with most of their point.
    """
    points = (*graph.accused, *graph.points)
    point_of = {rank: number for number, point in reversed([*enumerate(points)]) for rank in point.ranks}
    places: dict[tuple[bool, int, str, str], list[RankStatus]] = defaultdict(list)
    for one in job_status.statuses.values():
        number = len(points) if one.rank in blamed else point_of.get(one.rank, len(points))
        apart = (one.state, one.where) if number == len(points) else ("", "")
        places[one.rank not in blamed, number, *apart].append(one)
    for _, members in sorted(places.items(), key=lambda place: place[0][:2]):
        waits = {one.rank: frozenset(edge.for_ranks for edge in edges.get(one.rank, ())) for one in members}
        told = Counter(filter(None, waits.values())).most_common(1)
        parts: dict[frozenset[tuple[int, ...]], list[RankStatus]] = defaultdict(list)
        for one in members:
            parts[waits[one.rank] or (told[0][0] if told else frozenset())].append(one)
        yield from parts.values()


def _operation(edge: WaitEdge) -> str:
    """``all_reduce #41 in dp``; a group that is a bare number would be read as a rank, or as one more count."""
    number = "" if edge.seq is None else f" #{edge.seq}"
    group = f"group {edge.group}" if edge.group[:1].isdigit() else edge.group
    return f"{edge.operation}{number}{f' in {group}' if group else ''}"


def _doing(status: RankStatus) -> str:
    """``waits in all_reduce at train (train.py:31)``, ``in read_shard (data.py:88)``."""
    if status.state == "working" and status.where:
        return f"in {status.where}"
    if status.state == "waiting" and status.activity is not None and status.activity.op:
        return f"waits in {status.activity.op} at {status.where}"
    return ": ".join(filter(None, (_STATES[status.state], status.where)))
