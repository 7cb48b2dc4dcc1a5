"""Rules over profiler traces: each needs only the traces, and says with which figures it was proved."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from statistics import NormalDist

from collectors.samples.traces import RankTrace
from hangtop.diagnosis.finding import Evidence, Finding, Observer, Severity
from hangtop.diagnosis.phrasing import count, duration, on_nodes, ranks_text
from hangtop.diagnosis.tables.thresholds import TRACE_CHANCE
from hangtop.diagnosis.traces.picture import Lateness, TracePicture

EXPOSED_SHARE = 0.3
"""Ours: exposed communication over the wall time. Well tuned jobs report 5 to 15 %; at 30 % overlap is worth work."""
DATA_SHARE = 0.3
"""Ours: waiting for a data loader alone, over the wall time; a loader that keeps up shows next to none."""
OFTEN_LATE = 0.6
"""Ours: share of the collectives with a late rank to which a straggler is the last to come."""
HELD_SHARE = 0.05
"""Ours: time for which the others wait for it, over the wall time; less is not worth a look."""
MEETINGS = 5
"""Ours: fewer collectives cannot tell one rank from chance; what they prove is tested against chance besides."""
WHY_LATE = {
    "compute": (
        ": it computes longer",
        "Compare clocks and temperature of its GPU with its peers', and its work: longer sequences, an extra stage.",
    ),
    "data": (
        ": it waits for its data loader",
        "Look at the storage that it reads from, and its worker processes; num_workers=0 confirms.",
    ),
    "idle": (
        ": it does nothing for longer",
        "Nothing runs there while the others wait: look at its stacks (hangtop stacks), its CPU, other processes.",
    ),
}
"""What a late rank may do more of than the others; what that says, and what to look at."""
COMPARE = "Compare this rank with its peers: clocks and temperature of its GPU, its data, other processes on its node."


def findings(seen: TracePicture) -> tuple[Finding, ...]:
    """All that the traces prove, the root first."""
    late = list(straggler_rank(seen))
    return (*late, *data_bound(seen), *communication_bound(seen, late[0] if late else None))


def outcome(seen: TracePicture, found: Iterable[Finding]) -> str:
    """``ok``, ``slow`` or ``failed``, as ``probe --json`` says it."""
    if not seen.ranks:
        return "failed"
    return "slow" if any(found) else "ok"


def _finding(
    kind: str, severity: Severity, weight: float, summary: str, told: Sequence[tuple[RankTrace, str]], advice: str,
    cause: str = "",
) -> Finding:  # fmt: skip
    """A finding about these traces, each with its words as evidence."""
    return Finding(
        kind, severity, weight, summary,
        ranks=tuple(sorted(trace.rank for trace, _ in told if trace.rank is not None)),
        nodes=tuple(sorted({trace.node for trace, _ in told if trace.node})),
        evidence=tuple(
            Evidence(
                Observer.TRACE, trace.path, trace.began,
                f"{trace.path if trace.rank is None else f'rank {trace.rank}'} {text}"
            )
            for trace, text in told[:8]
        ),
        advice=advice, cause=cause,
    )  # fmt: skip


def _who(traces: Sequence[RankTrace], verb: str) -> str:
    """``rank 3 waits``, ``ranks 0-2 wait``, ``2 traces wait``."""
    ranks = [trace.rank for trace in traces if trace.rank is not None]
    return f"{ranks_text(ranks) if ranks else count(len(traces), 'trace')} {verb}{'s' if len(traces) == 1 else ''}"


def straggler_rank(seen: TracePicture) -> Iterator[Finding]:
    """straggler_rank: in most collectives with a late rank it is this one, and that costs the others time.

    A collective's kernel runs from a rank's arrival to the common end, so the last to come has the shortest. Needs
    five collectives in which a rank was clearly late, and it more often than chance would have it for any rank.
    """
    late = {one.rank: one for one in seen.lateness if _is_late(one, seen)}
    if not late or len(late) > max(1, len(seen.lateness) // 4):
        return
    own = [trace for trace in seen.ranks if trace.rank in late]
    held = statistics.median(one.held_up for one in late.values()) / _median_wall(seen)
    why, advice = _why_late(own, [trace for trace in seen.ranks if trace.rank not in late])
    where = f"{ranks_text(late)} {on_nodes(sorted({trace.node for trace in own if trace.node}))}".rstrip()
    told = [
        (trace, (f"came last to {one.late} of {count(one.met, 'collective')} in which a rank was late; the others "
                 f"waited {lasting(one.held_up)} for it"))
        for trace in own if trace.rank is not None and (one := late[trace.rank])
    ]  # fmt: skip
    whole = len(seen.ranks) >= max(trace.world_size or 0 for trace in seen.ranks)
    yield _finding(
        "straggler_rank", "warning", 0.85 if whole else 0.65,
        f"the others wait for {where} for {held:.0%} of the time{why}", told, advice,
    )  # fmt: skip


def _is_late(one: Lateness, seen: TracePicture) -> bool:
    if one.met < MEETINGS or one.late < OFTEN_LATE * one.met:
        return False
    # how many come late together, over the ranks, is how often chance would make one of them late
    usual = min(0.99, sum(other.late for other in seen.lateness) / sum(other.met for other in seen.lateness))
    spread = sqrt(one.met * usual * (1 - usual))
    chance = 1 - NormalDist().cdf((one.late - 0.5 - one.met * usual) / spread)
    return chance * len(seen.lateness) < TRACE_CHANCE and one.held_up >= HELD_SHARE * _median_wall(seen)


def _median_wall(seen: TracePicture) -> float:
    return statistics.median(trace.wall for trace in seen.ranks) or 1e-9


def _why_late(late: Sequence[RankTrace], others: Sequence[RankTrace]) -> tuple[str, str]:
    """What the late ranks do more of than the others, and what to look at."""
    parts = [
        {word: statistics.median(_part(trace, word) for trace in traces) for word in WHY_LATE}
        for traces in (late, others)
        if traces
    ]
    if len(parts) < 2:
        return "", COMPARE
    more = {word: parts[0][word] - parts[1][word] for word in WHY_LATE}
    word = max(more, key=lambda word: more[word])
    enough = more[word] >= HELD_SHARE * statistics.median(trace.wall for trace in others)
    return (f"{WHY_LATE[word][0]}, by {lasting(more[word])}", WHY_LATE[word][1]) if enough else ("", COMPARE)


def _part(trace: RankTrace, word: str) -> float:
    return {"compute": trace.compute, "data": trace.data, "idle": trace.idle - trace.data}[word]


def data_bound(seen: TracePicture) -> Iterator[Finding]:
    """data_bound: half of the ranks or more wait for their data loaders alone for more than the share of the time."""
    bound = [trace for trace in seen.ranks if trace.wall and trace.data >= DATA_SHARE * trace.wall]
    if bound and 2 * len(bound) >= len(seen.ranks):
        share = statistics.median(trace.data / trace.wall for trace in bound)
        yield _finding(
            "data_bound", "warning", 0.85,
            f"{_who(bound, 'wait')} for data for {share:.0%} of the time, with nothing else to do",
            [(trace, f"{lasting(trace.data)} of {lasting(trace.wall)} in the data loader alone") for trace in bound],
            "More workers, a larger prefetch factor, or faster storage.",
        )  # fmt: skip


def communication_bound(seen: TracePicture, late: Finding | None) -> Iterator[Finding]:
    """communication_bound: exposed communication takes more than its share of half of the ranks or more.

    Follows from a straggler where waiting for late ranks makes up most of it.
    """
    bound = [trace for trace in seen.ranks if trace.wall and trace.exposed >= EXPOSED_SHARE * trace.wall]
    if not bound or 2 * len(bound) < len(seen.ranks):
        return
    share = statistics.median(trace.exposed / trace.wall for trace in bound)
    waits = [own.waited / t.communication for t in bound if t.communication and (own := seen.late(t.rank))]
    waiting = statistics.median(waits) if waits else 0.0
    caused = late is not None and waiting > 0.5
    parts = f"; {waiting:.0%} of the communication is waiting for ranks that come later" if waits else ""
    heavy = ", ".join(f"{one.op} {one.group}".rstrip() for one in seen.together[:2]) or "the collectives"
    yield _finding(
        "communication_bound", "info" if caused else "warning", 0.6 if caused else 0.85,
        f"{_who(bound, 'spend')} {share:.0%} of the time in communication that no computation hides{parts}",
        [(trace, f"exposed {lasting(trace.exposed)} of {lasting(trace.wall)}") for trace in bound],
        f"The ranks come to {heavy} at different times: balance their work first." if waiting > 0.5 else
        f"Overlap or shrink {heavy}: larger buckets, prefetching of shards, a smaller group within the node. "
        "`hangtop probe` shows whether the network gives what it should.",
        cause="straggler_rank" if caused else "",
    )  # fmt: skip


def lasting(seconds: float) -> str:
    """``80 µs``, ``4.2 ms``, ``1.5 s``, ``4 min``."""
    if seconds >= 0.9995:
        return duration(seconds)
    if seconds >= 0.0009995:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"
