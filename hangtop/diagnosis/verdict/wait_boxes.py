"""The waits of a job, folded: ranks that do the same form a box, and an edge leads to the box for which a box waits.

Boxes rest on the evidence of the verdict: the ranks blamed by its first finding, the points of the wait graph, the
peers that frames name, and the open operations in recorders, watchdog reports, RAS and NCCL's log.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from hangtop.diagnosis.collectives.progress import WaitEdge
from hangtop.diagnosis.finding import NAME_NOBODY, Finding, WaitBox
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import WAITS, RankStatus, State, nodes_of

_STATES: dict[State, str] = {
    "gone": "is gone", "missing": "is on no node in view", "stopped": "is stopped",
    "uninterruptible": "is stuck in the kernel", "unseen": "was not looked at", "leaving": "has left training",
    "on_gpu": "waits for its own GPU", "working": "is elsewhere", "waiting": "waits",
}  # fmt: skip


def wait_boxes(job_status: JobStatus, findings: Sequence[Finding]) -> tuple[WaitBox, ...]:
    """Boxes of a job that stands still, blamed boxes first; none if no rank waits."""
    graph = job_status.graph
    if graph.pattern == "none":
        return ()
    blamed = set(findings[0].ranks) if findings and findings[0].kind not in NAME_NOBODY else set()
    edges: dict[int, list[WaitEdge]] = defaultdict(list)
    for edge in job_status.edges:
        edges[edge.waiter].append(edge)
    waits = {status.rank: f"waits {point.text}" for point in graph.points for status in point.members}
    alike: dict[tuple[bool, str], list[RankStatus]] = defaultdict(list)
    for status in job_status.statuses.values():
        alike[status.rank in blamed, waits.get(status.rank) or _doing(status)].append(status)
    groups = [(*key, part) for key, members in alike.items() for part in _by_awaited(members, edges)]
    groups.sort(key=lambda group: (not group[0], group[2][0].state not in WAITS, -len(group[2]), group[2][0].rank))
    place_of = {status.rank: place for place, (_, _, group) in enumerate(groups) for status in group}
    held_up = tuple(place for place, (is_blamed, *_) in enumerate(groups) if is_blamed)
    boxes = []
    for place, (is_blamed, doing, group) in enumerate(groups):
        ahead: dict[int, str] = {}
        for edge in (edge for status in group for edge in edges.get(status.rank, ())):
            for other in {place_of[rank] for rank in edge.for_ranks if rank in place_of} - {place}:
                ahead.setdefault(other, _operation(edge))
        otherwise = held_up if group[0].state in WAITS and not is_blamed else ()
        boxes.append(
            WaitBox(
                ranks=tuple(status.rank for status in group), nodes=nodes_of(group),
                doing=doing, blamed=is_blamed, waits_for=tuple(sorted(ahead)) or otherwise,
                operation=next(iter(ahead.values()), ""),
            )
        )  # fmt: skip
    return tuple(boxes)


def _by_awaited(members: Sequence[RankStatus], edges: Mapping[int, Sequence[WaitEdge]]) -> Iterator[list[RankStatus]]:
    """Split the ranks at one point by the ranks for which they wait: all stages of a pipeline wait at one line.

    Ranks without an edge join the largest part.
    """
    waits = {status.rank: frozenset(edge.for_ranks for edge in edges.get(status.rank, ())) for status in members}
    largest = Counter(filter(None, waits.values())).most_common(1)
    parts: dict[frozenset[tuple[int, ...]], list[RankStatus]] = defaultdict(list)
    for status in members:
        parts[waits[status.rank] or (largest[0][0] if largest else frozenset())].append(status)
    yield from parts.values()


def _operation(edge: WaitEdge) -> str:
    """``all_reduce #41 in dp``; ``in group 3`` for a number, which would otherwise look like a rank or a count."""
    number = "" if edge.seq is None else f" #{edge.seq}"
    group = f"group {edge.group}" if edge.group[:1].isdigit() else edge.group
    return f"{edge.operation}{number}{f' in {group}' if group else ''}"


def _doing(status: RankStatus) -> str:
    """``in read_shard (data.py:88)``, ``is stopped: step (train.py:12)``."""
    if status.state == "working" and status.where:
        return f"in {status.where}" if status.activity and status.activity.where else status.where
    return ": ".join(filter(None, (_STATES[status.state], status.where)))
