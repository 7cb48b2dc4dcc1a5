"""What NCCL's Inspector measured of operations: a rank that comes last, one that is slow, a slow group, a slow link.

A rank's time in a collective begins with its own kernel: one that comes last is done soonest, and shows *more*
bandwidth than those who wait for it inside. So a rank far above its peers holds the others up, one far below is slow
itself or comes first, and a fault on the way slows all of its group alike: that one shows beside groups like it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from collectors.samples.logs import CommSpeed
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.groups.unequal import ENOUGH, FAR, LARGE, PEERS
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, listed, on_nodes, ranks_text, size

SLOW_GROUP = 1.6
"""Ours: a group shares nothing with the others, and its median does not jump: less is far enough."""
STALE_S = 600.0
"""Ours: what was measured longer ago says nothing of a job that is watched."""

_Where = dict[str, str]


def measured(job: Job) -> Iterator[Finding]:
    """straggler_rank, bandwidth_low, slow_link by the files of NCCL's Inspector.

    Needs such files of three ranks, groups or pairs at least, with 16 large operations of one kind each.
    """
    nodes: _Where = {}
    by_group: dict[tuple[str, str, int], list[CommSpeed]] = defaultdict(list)
    for name, node in job.nodes.items():
        for speed in node.speeds:
            old = job.live and (speed.at is None or job.now - speed.at > STALE_S)
            if speed.bytes >= LARGE and speed.seen >= ENOUGH and not old:
                by_group[speed.comm, speed.op, speed.bytes].append(speed)
                nodes[_process(speed)] = name
    told: set[tuple[str, tuple[int, ...], tuple[str, ...]]] = set()
    groups = sorted(by_group.items(), key=lambda item: -item[0][2])
    for finding in (*_odd_ranks(groups, nodes), *_slow_groups(dict(groups), nodes), *_slow_pairs(groups, nodes)):
        key = (finding.kind, finding.ranks, finding.nodes)
        if key not in told:  # other sizes of the same say the same
            told.add(key)
            yield finding


def _odd_ranks(groups: Sequence[tuple[tuple[str, str, int], list[CommSpeed]]], nodes: _Where) -> Iterator[Finding]:
    for (_, op, message), members in groups:
        if members[0].peer is not None or len(members) < max(PEERS, members[0].size / 2):
            continue
        few = max(1, len(members) // 4)
        usual = median(speed.median for speed in members)
        fast = [speed for speed in members if speed.median > FAR * usual]
        slow = [speed for speed in members if speed.median * FAR < usual]
        rest = [speed for speed in members if speed not in fast and speed not in slow]
        what = f"{op} of {size(message)}{_of(members[0])}"
        if 0 < len(fast) <= few and rest and min(s.low for s in fast) > max(s.high for s in rest):
            yield _finding(
                "straggler_rank", 0.7, fast, rest, nodes, what,
                f"{_who(fast)}{_on(fast, nodes)} {_comes(fast)} last to {what}: "
                f"the others wait there for {_it(fast)}",
                "A rank that comes last is done soonest. Compare it with its peers: GPU clocks, its data, other "
                "processes on its node.",
            )  # fmt: skip
        if 0 < len(slow) <= few and rest and max(s.high for s in slow) < min(s.low for s in rest):
            yield _finding(
                "bandwidth_low", 0.65, slow, rest, nodes, what,
                f"{_who(slow)}{_on(slow, nodes)} {_has(slow)} {median(s.median for s in slow):.1f} GB/s in {what} "
                f"where {_its(slow)} peers have {median(s.median for s in rest):.1f}",
                "Its links are slow (PCIe, NVLink, its HCA), or it always comes first and waits for all others: "
                "compare the clocks of its GPU, its port's counters, and hangtop probe path.",
            )  # fmt: skip


def _slow_groups(by_group: Mapping[tuple[str, str, int], list[CommSpeed]], nodes: _Where) -> Iterator[Finding]:
    """Groups of one size, over as many nodes, in the same operation: all of one are slow, those of the others not."""
    alike: dict[tuple[str, int, int, int], list[list[CommSpeed]]] = defaultdict(list)
    for (_, op, message), members in by_group.items():
        if members[0].peer is None and len(members) >= members[0].size / 2:
            alike[op, message, members[0].size, members[0].nodes].append(members)
    for (op, message, ranks, _), groups in alike.items():
        if len(groups) < PEERS:
            continue
        best = {id(group): max(speed.high for speed in group) for group in groups}
        usual = median(best.values())
        slow = [group for group in groups if best[id(group)] * SLOW_GROUP < usual]
        rest = [speed for group in groups if group not in slow for speed in group]
        if 0 < len(slow) <= max(1, len(groups) // 4):
            for group in slow:
                what = f"{op} of {size(message)}{_of(group[0])}"
                yield _finding(
                    "bandwidth_low", 0.7, group, rest, nodes, what,
                    f"{_who(group)}{_on(group, nodes)} {_has(group)} {best[id(group)]:.1f} GB/s at best in {what}, "
                    f"{count(len(groups) - len(slow), 'group')} like it of {count(ranks, 'rank')} {usual:.1f}",
                    "All of a group are as slow as its slowest link: look at what only this group uses (a rail, a "
                    "leaf, one node's HCA).",
                )  # fmt: skip


def _slow_pairs(groups: Sequence[tuple[tuple[str, str, int], list[CommSpeed]]], nodes: _Where) -> Iterator[Finding]:
    """Pairs by the best that each has shown: in a pipeline one side waits for the other's work, but not always."""
    for (_, op, message), members in groups:
        pairs = [speed for speed in members if speed.peer is not None]
        if len(pairs) < PEERS:
            continue
        usual = median(speed.high for speed in pairs)
        slow = [speed for speed in pairs if speed.high * FAR < usual]
        if not 0 < len(slow) <= max(1, len(pairs) // 4):
            continue
        own = {speed.group_rank: speed for speed in members}
        for speed in slow:
            ends = [speed, *([own[speed.peer]] if speed.peer in own else [])]
            what = f"{op} of {size(message)}{_of(speed)}"
            rest = [other for other in pairs if other not in slow]
            yield _finding(
                "slow_link", 0.65, ends, rest, nodes, what,
                f"{_name(speed)} to rank {speed.peer}{_of(speed)}: {speed.high:.1f} GB/s at best in {op} of "
                f"{size(message)}, other pairs {usual:.1f}",
                "Measure this pair alone: hangtop probe allreduce between its nodes; then look at the ports at both "
                "ends.",
            )  # fmt: skip


def _finding(
    kind: str, weight: float, odd: Sequence[CommSpeed], rest: Sequence[CommSpeed], nodes: _Where, what: str,
    summary: str, advice: str,
) -> Finding:  # fmt: skip
    ranks = tuple(sorted({speed.global_rank for speed in odd if speed.global_rank is not None}))
    at = max((speed.at for speed in odd if speed.at is not None), default=None)
    told = [f"{_name(speed)} {speed.median:.1f} GB/s ({speed.low:.1f} to {speed.high:.1f})" for speed in odd[:8]]
    others = f"{count(len(rest), 'other')} {median(speed.median for speed in rest):.1f} GB/s" if rest else ""
    return Finding(
        kind, "warning", weight, summary, ranks=ranks,
        nodes=tuple(sorted({nodes[_process(speed)] for speed in odd if _process(speed) in nodes})),
        evidence=(Evidence(odd[0].source, at, f"{what}: {'; '.join(filter(None, (*told, others)))}"),),
        advice=advice,
    )  # fmt: skip


def _process(speed: CommSpeed) -> str:
    return f"{speed.host}:{speed.pid}:{speed.source}"


def _of(speed: CommSpeed) -> str:
    """The communicator, where it has a name."""
    return f" in {speed.name}" if speed.name not in ("", "unknown") else ""


def _name(speed: CommSpeed) -> str:
    if speed.global_rank is not None:
        return f"rank {speed.global_rank}"
    return f"rank {speed.group_rank} of communicator {speed.comm}"


def _who(odd: Sequence[CommSpeed]) -> str:
    if all(speed.global_rank is not None for speed in odd):
        return ranks_text(speed.global_rank for speed in odd if speed.global_rank is not None)
    return listed([_name(speed) for speed in odd])


def _on(odd: Sequence[CommSpeed], nodes: _Where) -> str:
    told = on_nodes({nodes.get(_process(speed), "") for speed in odd})
    return f" {told}" if told else ""


def _comes(odd: Sequence[CommSpeed]) -> str:
    return "comes" if len(odd) == 1 else "come"


def _has(odd: Sequence[CommSpeed]) -> str:
    return "has" if len(odd) == 1 else "have"


def _it(odd: Sequence[CommSpeed]) -> str:
    return "it" if len(odd) == 1 else "them"


def _its(odd: Sequence[CommSpeed]) -> str:
    return "its" if len(odd) == 1 else "their"
