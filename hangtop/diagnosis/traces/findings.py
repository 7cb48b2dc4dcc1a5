"""Rules over profiler traces: each needs only the traces, and says with which figures it was proved."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from math import sqrt
from statistics import NormalDist

from collectors.samples.traces import RankTrace
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.phrasing import count, duration, on_nodes, ranks_text
from hangtop.diagnosis.tables.thresholds import TRACE_CHANCE
from hangtop.diagnosis.traces.picture import Lateness, TracePicture

TRACE_EXPOSED_SHARE = 0.3
"""Ours: exposed communication over the wall time. Well tuned jobs report 5 to 15 %; at 30 % overlap is worth work."""
TRACE_DATA_SHARE = 0.3
"""Ours: waiting for a data loader alone, over the wall time; a loader that keeps up shows next to none."""
TRACE_LATE_SHARE = 0.6
"""Ours: share of the collectives with a late rank to which a straggler is the last to come."""
TRACE_HELD_SHARE = 0.05
"""Ours: time for which the others wait for it, over the wall time; less is not worth a look."""
TRACE_MEETINGS = 5
"""Ours: fewer collectives cannot tell one rank from chance; what they prove is tested against chance besides."""
SHOWN = 8
"""Ranks that are told one by one."""

WHY = {
    "compute": (
        "it computes longer",
        (
            "Compare clocks and temperature of its GPU with its peers', and the work that it has: longer sequences, "
            "more experts, an extra pipeline stage."
        ),
    ),
    "data": (
        "it waits for its data loader",
        "Look at the storage that this rank reads from, and its worker processes; num_workers=0 confirms.",
    ),
    "idle": (
        "it does nothing for longer",
        (
            "Nothing runs there while the others wait: look at its stacks (hangtop stacks), its CPU, other processes "
            "on its node."
        ),
    ),
}
"""What a late rank may do more of than the others; what that says, and what to look at."""


def findings(seen: TracePicture) -> tuple[Finding, ...]:
    """All that the traces prove, the root first."""
    late = list(straggler_rank(seen))
    return (*late, *data_bound(seen), *communication_bound(seen, late[0] if late else None))


def outcome(seen: TracePicture, found: Iterable[Finding]) -> str:
    """``ok``, ``slow`` or ``failed``, as ``probe --json`` says it."""
    if not seen.ranks:
        return "failed"
    return "slow" if any(found) else "ok"


def straggler_rank(seen: TracePicture) -> Iterator[Finding]:
    """straggler_rank: in most collectives with a late rank it is this one, and that costs the others time.

    A collective's kernel runs from a rank's arrival to the common end, so the last to come has the shortest. Needs
    five collectives in which somebody was clearly late, and it more often than chance would have it for any rank.
    """
    late = [one for one in seen.lateness if _is_late(one, seen)]
    if not late or len(late) > max(1, len(seen.lateness) // 4):
        return
    own = {trace.rank: trace for trace in seen.ranks}
    ranks = tuple(one.rank for one in late)
    held = statistics.median(one.held_up for one in late)
    share = held / _median_wall(seen)
    nodes = sorted({own[rank].node for rank in ranks if own[rank].node})
    why, advice = _why_late([own[rank] for rank in ranks], [t for t in seen.ranks if t.rank not in ranks])
    yield Finding(
        "straggler_rank", "warning", 0.85 if seen.complete else 0.65,
        f"the others wait for {ranks_text(ranks)} {on_nodes(nodes)}".rstrip() + f" for {share:.0%} of the time"
        + (f": {why}" if why else ""),
        ranks=ranks, nodes=tuple(nodes),
        evidence=tuple(
            Evidence(
                own[one.rank].path, own[one.rank].began,
                f"rank {one.rank} came last to {one.late} of {count(one.met, 'collective')} in which somebody was late"
                f" ({seen.met} compared); the others waited {lasting(one.held_up)} for it",
            )
            for one in late[:SHOWN]
        ),
        advice=advice,
    )  # fmt: skip


def _is_late(one: Lateness, seen: TracePicture) -> bool:
    if one.met < TRACE_MEETINGS or one.share < TRACE_LATE_SHARE:
        return False
    # how many come late together, over the ranks, is how often chance would make one of them late
    usual = min(0.99, sum(other.late for other in seen.lateness) / sum(other.met for other in seen.lateness))
    spread = sqrt(one.met * usual * (1 - usual))
    chance = 1 - NormalDist().cdf((one.late - 0.5 - one.met * usual) / spread)
    return chance * len(seen.lateness) < TRACE_CHANCE and one.held_up >= TRACE_HELD_SHARE * _median_wall(seen)


def _median_wall(seen: TracePicture) -> float:
    return statistics.median(trace.wall for trace in seen.ranks) or 1e-9


def _why_late(late: list[RankTrace], others: list[RankTrace]) -> tuple[str, str]:
    """What the late ranks do more of than the others, and what to look at."""
    if others:
        more = {word: _more(late, others, word) for word in WHY}
        word = max(more, key=lambda word: more[word])
        if more[word] >= TRACE_HELD_SHARE * statistics.median(trace.wall for trace in others):
            return f"{WHY[word][0]}, by {lasting(more[word])}", WHY[word][1]
    return "", (
        "Compare this rank with its peers: clocks and temperature of its GPU, its data, other processes on its node."
    )


def _more(late: list[RankTrace], others: list[RankTrace], word: str) -> float:
    """By how many seconds the median of the late ranks is above that of the others."""
    own, usual = ([_spent(trace, word) for trace in traces] for traces in (late, others))
    return statistics.median(own) - statistics.median(usual)


def _spent(trace: RankTrace, word: str) -> float:
    return {"compute": trace.compute, "data": trace.data, "idle": trace.idle - trace.data}[word]


def data_bound(seen: TracePicture) -> Iterator[Finding]:
    """data_bound: half of the ranks or more wait for their data loaders alone for more than the share of the time."""
    bound = [trace for trace in seen.ranks if trace.wall and trace.data >= TRACE_DATA_SHARE * trace.wall]
    if not bound or 2 * len(bound) < len(seen.ranks):
        return
    share = statistics.median(trace.data / trace.wall for trace in bound)
    yield Finding(
        "data_bound", "warning", 0.85,
        f"{_who(bound)} {_verb(bound, 'wait')} for data for {share:.0%} of the time, with nothing else to do",
        ranks=_ranks(bound), nodes=_nodes(bound),
        evidence=tuple(
            Evidence(t.path, t.began, f"{_name(t)}: {lasting(t.data)} of {lasting(t.wall)} in the data loader alone")
            for t in bound[:SHOWN]
        ),
        advice="More workers, a larger prefetch factor, or faster storage.",
    )  # fmt: skip


def communication_bound(seen: TracePicture, late: Finding | None) -> Iterator[Finding]:
    """communication_bound: exposed communication takes more than its share of half of the ranks or more.

    Follows from a straggler where waiting for late ranks makes up most of it.
    """
    bound = [trace for trace in seen.ranks if trace.wall and trace.exposed >= TRACE_EXPOSED_SHARE * trace.wall]
    if not bound or 2 * len(bound) < len(seen.ranks):
        return
    share = statistics.median(trace.exposed / trace.wall for trace in bound)
    waits = [late_one.waited / trace.communication for trace in bound
             if (late_one := seen.late(trace.rank)) and trace.communication]  # fmt: skip
    waiting = statistics.median(waits) if waits else None
    caused = late is not None and waiting is not None and waiting > 0.5
    parts = "" if waiting is None else f"; {waiting:.0%} of the communication is waiting for ranks that come later"
    yield Finding(
        "communication_bound", "info" if caused else "warning", 0.6 if caused else 0.85,
        f"{_who(bound)} {_verb(bound, 'spend')} {share:.0%} of the time in communication that no computation hides"
        + parts,
        ranks=_ranks(bound), nodes=_nodes(bound),
        evidence=tuple(
            Evidence(
                t.path, t.began,
                f"{_name(t)}: exposed {lasting(t.exposed)} of {lasting(t.wall)}; communication "
                f"{lasting(t.communication)}, compute {lasting(t.compute)}",
            )
            for t in bound[:SHOWN]
        ),
        advice=_advice(seen, waiting),
        cause="straggler_rank" if caused else "",
    )  # fmt: skip


def _advice(seen: TracePicture, waiting: float | None) -> str:
    heavy = ", ".join(f"{one.op} {one.group}".rstrip() for one in seen.together[:2])
    if waiting is not None and waiting > 0.5:
        return f"The ranks come to {heavy or 'the collectives'} at different times: balance their work first."
    return (
        f"Overlap or shrink {heavy or 'the collectives'}: larger buckets, prefetching of shards, a smaller group "
        "within the node. `hangtop probe` shows whether the network gives what it should."
    )


def _who(traces: list[RankTrace]) -> str:
    ranks = _ranks(traces)
    return ranks_text(ranks) if ranks else count(len(traces), "trace")


def _verb(traces: list[RankTrace], verb: str) -> str:
    return verb + "s" if len(traces) == 1 else verb


def _ranks(traces: Iterable[RankTrace]) -> tuple[int, ...]:
    return tuple(sorted(trace.rank for trace in traces if trace.rank is not None))


def _nodes(traces: Iterable[RankTrace]) -> tuple[str, ...]:
    return tuple(sorted({trace.node for trace in traces if trace.node}))


def _name(trace: RankTrace) -> str:
    return trace.path if trace.rank is None else f"rank {trace.rank}"


def lasting(seconds: float) -> str:
    """``80 µs``, ``4.2 ms``, ``1.5 s``, ``4 min``."""
    if seconds >= 0.9995:
        return duration(seconds)
    if seconds >= 0.0009995:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"
