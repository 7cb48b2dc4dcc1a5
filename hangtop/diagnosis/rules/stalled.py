"""Nothing moves: ranks wait at different operations, in a cycle of sends and receives, or none of them is odd."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from hangtop.diagnosis.evidence.gpus import load_proof
from hangtop.diagnosis.finding import Evidence, Finding, NextStep, Observer, next_step
from hangtop.diagnosis.phrasing import count, duration, listed, of_several, rank_text, ranks_text, waiters_text
from hangtop.diagnosis.rules.launches import CODE, PAIR_UP
from hangtop.diagnosis.rules.stuck import COMING_UP
from hangtop.diagnosis.tables.kinds import word_of
from hangtop.diagnosis.tables.thresholds import START_S
from hangtop.diagnosis.waits.evidence import stack_of, waiters_of, watch_of, weight_of
from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of, stands

AGREED = (
    "The code of all ranks agrees: suspect the network or a GPU, or sizes that differ (as an all_to_all's). Run the "
    "allreduce probe, look at the fabric panel and for Xid lines."
)
UNNAMED = (
    "From outside all ranks look the same. Stacks (run as the job's user or root), recorder dumps (press r), NCCL RAS, "
    "NCCL_DEBUG=INFO with COLL, or the allreduce probe show whether a collective was skipped, or network or GPU failed."
)
OPEN_KINDS = frozenset({"device", "backward", "forward"})
"""Kinds of waits whose Python frames do not show the operation that they wait for."""
NO_OPERATION = ("init", "store", "code", "sleep")
"""Kinds of waits outside any collective."""
LOOK = "Look at what the rank does, and at the file, service or device that it uses."
GROUPS_TOLD = 4
DUMPS = NextStep("r", "hangtop analyze FLIGHT_RECORDER_DUMPS")


def mismatch(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch: all ranks wait, but not at the same operation; the minority is the odd one.

    If no sign shows which side is odd, both are named. Waits at different steps of one start are init_hang.
    """
    graph = job_status.graph
    coming_up = all(point.kind in COMING_UP for point in graph.points)
    moves = graph.by == "lines" and not _stands(job_status, graph)
    if graph.pattern != "mismatch" or not job_status.hung or coming_up or moves:
        return
    waiters = [point for point in graph.points if point not in graph.accused]
    odd = " and ".join(f"{ranks_text(point.ranks)} {point.text}" for point in graph.accused)
    others = "".join(f", {count(len(point.members), 'other')} {point.text}" for point in waiters[:1])
    yield Finding(
        "collective_mismatch", "critical", weight_of(job_status, graph, graph.culprits),
        f"ranks wait at different {graph.by if graph.by == 'lines' else 'operations'}: {odd}{others}",
        ranks=tuple(culprit.rank for culprit in graph.culprits), nodes=nodes_of(graph.culprits),
        evidence=_evidence(graph, graph.culprits, graph.held), advice=CODE, next=(DUMPS,),
    )  # fmt: skip


def deadlock(job_status: JobStatus) -> Iterator[Finding]:
    """p2p_deadlock: ranks wait to receive from (or to send to) one another in a cycle."""
    graph = job_status.graph
    if graph.pattern != "deadlock" or not job_status.hung:
        return
    peers = {culprit.rank: culprit.activity.peer if culprit.activity else None for culprit in graph.culprits}
    steps = [
        f"{rank_text(culprit.rank)} in {culprit.activity.op if culprit.activity else 'p2p'}"
        f"{'' if peers[culprit.rank] is None else f' with rank {peers[culprit.rank]}'}" for culprit in graph.culprits
    ]  # fmt: skip
    others = f"; {waiters_text(graph.waiters, 'other')} for them" if graph.waiters else ""
    yield Finding(
        "p2p_deadlock", "critical", 0.93 if None not in peers.values() and graph.frozen else 0.75,
        f"sends and receives wait in a cycle: {listed(steps)}{others}",
        ranks=tuple(peers), nodes=nodes_of(graph.culprits), evidence=_evidence(graph, graph.culprits, graph.held),
        advice=PAIR_UP,
    )  # fmt: skip


def stalled(job_status: JobStatus, found: Sequence[Finding]) -> Iterator[Finding]:
    """collective_stalled: all ranks of a group are in one operation; job_stalled: no rank moves, wherever they are.

    job_stalled works without any stack. It names the ranks whose GPUs are idle while those of all others spin, or the
    only rank of a job. ``found`` are the findings of all other rules: both kinds give way to another hang, and
    job_stalled to a crash or to ``waiting``, too.
    """
    job, graph, group = job_status.job, job_status.graph, _in_one_operation(job_status)
    kind = "collective_stalled" if group else "job_stalled"
    serious = (finding for finding in found if finding.severity != "info" and finding.kind != kind)
    if any(word_of(finding.kind) in (("hung",) if group else ("hung", "crashed", "waiting")) for finding in serious):
        return
    ranks = group or tuple(s for s in job_status.present if s.process is not None and s.state != "leaving")
    held = graph.held if group else _still_for(job_status, ranks)
    if not ranks or held is None or held < max(map(job_status.due, ranks)):
        return
    empty = [status for status in ranks if status.load == "idle"]
    full = sum(status.load == "spinning" for status in ranks)
    odd = empty if not group and full > len(empty) and len(empty) + full == len(ranks) else []
    owners = [status.process for status in ranks if status.process is not None and status.load != "unknown"]
    named = group or odd or (ranks if len(ranks) == 1 else ())
    open_ended = not group or any(point.kind in OPEN_KINDS for point in graph.accused)
    waiters = f"; {waiters_text(graph.waiters, 'other')} for them" if group and graph.waiters else ""
    yield Finding(
        kind, "critical", 0.8 if odd else 0.5 if not group else 0.55 if open_ended else 0.7,
        f"{_not_moved(job_status, ranks, held)}{'; no rank is odd' if group else ''}{waiters}",
        ranks=tuple(status.rank for status in named), nodes=nodes_of(named),
        evidence=_evidence(graph, ranks[:2], held, *([load_proof(job, owners)] if owners else ())),
        advice=AGREED if not open_ended else LOOK if named and not group else UNNAMED,
        next=(next_step("a", "probe", *(nodes_of(ranks) or ("NODES",))), DUMPS),
    )  # fmt: skip


def _in_one_operation(job_status: JobStatus) -> tuple[RankStatus, ...]:
    """The ranks that stand still in one operation of a group; empty if a rank is odd."""
    graph = job_status.graph
    if graph.pattern != "stalled" or not _stands(job_status, graph):
        return ()
    return graph.culprits if graph.accused[0].kind not in NO_OPERATION and len(graph.culprits) > 1 else ()


def _still_for(job_status: JobStatus, ranks: Sequence[RankStatus]) -> float | None:
    """Seconds for which no sign shows motion of these ranks; None if one may have moved, and during a start."""
    job = job_status.job
    started = [status.process.process.started for status in ranks if status.process is not None]
    young = job.motion.last_step is None and job.now - min(started, default=job.now) < START_S
    if young or not stands(job) or job.motion.moving:
        return None
    return min([job.stood_still or 0.0, *(status.held for status in ranks if status.read)])


def standing(job_status: JobStatus) -> str:
    """Where the ranks are of a job that has not moved for a while and has no odd rank; else empty."""
    job, present, graph = job_status.job, job_status.present, job_status.graph
    if not stands(job) or job.motion.moving or graph.pattern not in ("none", "stalled"):
        return ""
    return _not_moved(job_status, present, job.stood_still or 0.0) if all(status.read for status in present) else ""


def _not_moved(job_status: JobStatus, ranks: Sequence[RankStatus], held: float) -> str:
    """``nothing has moved for 70 s: ranks 0-3 wait in all_reduce, at step (train.py:50)``, the largest group first."""
    groups: dict[str, list[int]] = defaultdict(list)
    for status in ranks:
        process, doing = status.motion, status.activity
        where = "burns CPU" if process.busy else "sleeps" if process.blocked else "alive, and not looked into"
        where += f", GPU {status.load}" if status.load != "unknown" else ""
        if doing is not None and not doing.error:
            where = ", at ".join(filter(None, (doing.label, doing.where)))
        groups[where].append(status.rank)
    places = sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[1]))
    groups_text = [f"{ranks_text(numbers)} {of_several(where, len(numbers))}" for where, numbers in places]
    who = "nothing has" if len(ranks) == len(job_status.present) else f"{count(len(ranks), 'rank')} have not"
    moved = f"moved for {duration(job_status.lasted(held))}" if job_status.job.live else "moved"
    return f"{who} {moved}: {listed(groups_text, GROUPS_TOLD)}" if ranks else ""


def _stands(job_status: JobStatus, graph: WaitGraph) -> bool:
    """Whether the ranks stand still: by their samples, or if they spin, by GPUs that are full at low and even power."""
    if job_status.job.motion.moving and not graph.part:
        return False
    return graph.frozen or all(status.load == "spinning" for status in (*graph.culprits, *graph.waiters))


def _evidence(graph: WaitGraph, shown: Sequence[RankStatus], held: float, *more: Evidence) -> tuple[Evidence, ...]:
    """Stacks of some ranks, where the others wait, and the length of the watch."""
    watched = Evidence(Observer.CONTEXT, "watch", None, f"no sign of motion for {duration(held)}")
    if graph.pattern != "none":
        watched = watch_of(graph, max(len(status.readings) for status in (*graph.waiters, *graph.culprits)))
    return (*filter(None, map(stack_of, shown[:4])), *more, *waiters_of(graph), watched)


STATUS_RULES = (mismatch, deadlock)
