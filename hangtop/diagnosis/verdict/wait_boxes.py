"""Who waits for whom, folded: ranks of which the same can be said make a box, and an edge leads to the box waited for.

Made of what the verdict was given upon: whom its first finding blames, the points of the graph of waits, the peers that
frames tell, and the operations that recorders, watchdogs, RAS and NCCL's log say are open.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from hangtop.diagnosis.collectives.progress import WaitEdge
from hangtop.diagnosis.finding import NAME_NOBODY, Finding, WaitBox
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import WAITS, RankStatus, State

_STATES: dict[State, str] = {
    "gone": "is gone", "missing": "is on no node in view", "stopped": "is stopped",
    "uninterruptible": "is stuck in the kernel", "unseen": "was not looked at", "leaving": "has left training",
    "on_gpu": "waits for its own GPU", "working": "is elsewhere", "waiting": "waits",
}  # fmt: skip


def wait_boxes(job_status: JobStatus, findings: Sequence[Finding]) -> tuple[WaitBox, ...]:
    """Boxes of a job that stands still, those that are blamed first; none where nobody waits."""
    graph = job_status.graph
    if graph is None:
        return ()
    blamed = set(findings[0].ranks) if findings and findings[0].kind not in NAME_NOBODY else set()
    edges: dict[int, list[WaitEdge]] = defaultdict(list)
    for edge in job_status.edges:
        edges[edge.waiter].append(edge)
    waits = {one.rank: f"waits {point.told}" for point in graph.points for one in point.members}
    alike: dict[tuple[bool, str], list[RankStatus]] = defaultdict(list)
    for one in job_status.statuses.values():
        alike[one.rank in blamed, waits.get(one.rank) or _doing(one)].append(one)
    groups = [(*key, part) for key, members in alike.items() for part in _by_awaited(members, edges)]
    groups.sort(key=lambda group: (not group[0], group[2][0].state not in WAITS, -len(group[2]), group[2][0].rank))
    place_of = {one.rank: place for place, (_, _, group) in enumerate(groups) for one in group}
    held_up = tuple(place for place, (is_blamed, *_) in enumerate(groups) if is_blamed)
    boxes = []
    for place, (is_blamed, doing, group) in enumerate(groups):
        ahead: dict[int, str] = {}
        for edge in (edge for one in group for edge in edges.get(one.rank, ())):
            for other in {place_of[rank] for rank in edge.for_ranks if rank in place_of} - {place}:
                ahead.setdefault(other, _operation(edge))
        otherwise = held_up if group[0].state in WAITS and not is_blamed else ()
        boxes.append(
            WaitBox(
                ranks=tuple(one.rank for one in group), nodes=tuple(sorted({one.node for one in group} - {""})),
                doing=doing, blamed=is_blamed, waits_for=tuple(sorted(ahead)) or otherwise,
                operation=next(iter(ahead.values()), ""),
            )
        )  # fmt: skip
    return tuple(boxes)


def _by_awaited(members: Sequence[RankStatus], edges: Mapping[int, Sequence[WaitEdge]]) -> Iterator[list[RankStatus]]:
    """Ranks at one point parted by the ranks for which they wait: the stages of a pipeline all wait at one line.

    Those of which no source says for which they wait stay with most of their point.
    """
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
    """``in read_shard (data.py:88)``, ``is stopped: step (train.py:12)``."""
    if status.state == "working" and status.where:
        return f"in {status.where}"
    return ": ".join(filter(None, (_STATES[status.state], status.where)))
