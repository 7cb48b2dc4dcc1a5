"""Every rank waits: at different operations, in a circle of sends and receives, or all at the same one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from hangtop.diagnosis.evidence.gpus import load_proof
from hangtop.diagnosis.finding import Evidence, Finding, NextStep, Observer, next_step
from hangtop.diagnosis.phrasing import count, duration, listed, of_several, rank_text, ranks_on, ranks_text, who_wait
from hangtop.diagnosis.roster import world_size
from hangtop.diagnosis.rules.stuck import COMING_UP, WHOLE_START
from hangtop.diagnosis.tables.kinds import word_of
from hangtop.diagnosis.tables.thresholds import LATE_LOOKS, LONG_WORK_S, SPIN_UNREAD_S, START_S
from hangtop.diagnosis.waits.evidence import stack_of, waiters_of, watch_of
from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.job_status import JobStatus, on_its_way
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of, stands
from hangtop.diagnosis.waits.score import OPEN_KINDS, weight_of

AGREED = (
    "The code of all ranks agrees: suspect the network or a GPU, or sizes that differ. Run the allreduce probe, look "
    "at the fabric panel and for Xid lines."
)
UNNAMED = (
    "From outside all ranks look alike: a rank that left a collective out, a network or a GPU that does not answer. "
    "What names it: flight recorder dumps (set TORCH_NCCL_DEBUG_INFO_PIPE_FILE for the next run, then press r), NCCL "
    "RAS (NCCL 2.24 and later), NCCL_DEBUG=INFO with the subsystem COLL; the allreduce probe tells network from code."
)
SETTLES = (
    "What would name the rank: stacks (run hangtop as the job's user or root), GPU figures, flight recorder dumps "
    "(TORCH_NCCL_DEBUG_INFO_PIPE_FILE), NCCL RAS, or NCCL_DEBUG=INFO with the subsystem COLL."
)
ENOUGH = 3
"""Ranks among which one that is unlike all others may be told."""
GROUPS_TOLD = 4


def mismatch(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch: all ranks wait, and not at the same operation; the minority is the odd one.

    A wait in a sub-group ends before the wait of the waiters. Where nothing tells which side is odd, both are named.
    Waits at different steps of one start are init_hang.
    """
    graph = job_status.graph
    if graph is None or graph.pattern != "mismatch" or not job_status.hung:
        return
    if all(point.kind in COMING_UP for point in graph.points) or any(point.op in WHOLE_START for point in graph.points):
        return
    if graph.by == "lines" and not _stands(job_status, graph):
        return
    waiters = [point for point in graph.points if point not in graph.accused]
    odd = " and ".join(f"{ranks_text(point.ranks)} {point.told}" for point in graph.accused)
    others = " and ".join(f"{count(len(point.members), 'other')} {point.told}" for point in waiters[:2])
    yield Finding(
        "collective_mismatch", "critical", weight_of(job_status, graph, graph.culprits),
        f"ranks wait at different {graph.by if graph.by == 'lines' else 'operations'}: {odd}"
        f"{f', {others}' if others else ''}",
        ranks=tuple(culprit.rank for culprit in graph.culprits), nodes=nodes_of(graph.culprits),
        evidence=_evidence(graph, graph.culprits),
        advice="Look for a collective behind `if rank == …`, for ranks with a different number of batches, or for "
        "branches that depend on the data.",
        next=(NextStep("r", "hangtop analyze FLIGHT_RECORDER_DUMPS"),),
    )  # fmt: skip


def deadlock(job_status: JobStatus) -> Iterator[Finding]:
    """p2p_deadlock: ranks wait to receive from (or to send to) one another in a circle.

    GPUs that compute are none of a circle's: what they compute will be sent.
    """
    graph = job_status.graph
    if graph is None or graph.pattern != "deadlock" or not job_status.hung:
        return
    loads = {culprit.load for culprit in graph.culprits}
    if "unknown" not in loads and not loads <= {"spinning", "idle"}:
        return
    doing = [(culprit.rank, culprit.activity) for culprit in graph.culprits]
    steps = [
        f"{rank_text(rank)} in {one.op if one else 'p2p'}"
        f"{f' with rank {one.peer}' if one is not None and one.peer is not None else ''}" for rank, one in doing
    ]  # fmt: skip
    known = all(one is not None and one.peer is not None for _, one in doing)
    waiting = f"; {who_wait(graph.waiters, 'other')} for them" if graph.waiters else ""
    yield Finding(
        "p2p_deadlock", "critical", 0.93 if known and graph.frozen else 0.75,
        f"sends and receives wait in a circle: {listed(steps)}{waiting}",
        ranks=tuple(culprit.rank for culprit in graph.culprits), nodes=nodes_of(graph.culprits),
        evidence=_evidence(graph, graph.culprits),
        advice="Pair sends with receives: even ranks send first, odd ranks receive first; or use batch_isend_irecv.",
    )  # fmt: skip


def stalled(job_status: JobStatus) -> Iterator[Finding]:
    """collective_stalled: every rank of a group is in the same operation and none completes; no rank is odd.

    Ranks that spin (NCCL keeps the CPU busy) count only where their GPUs spin too, at low flat power, and nothing else
    shows that the job moves.
    """
    graph = job_status.graph
    if graph is None or graph.pattern not in ("stalled", "stuck_group") or not job_status.hung:
        return
    point = graph.accused[0]
    if point.kind in ("init", "store", "code") or len(point.members) < 2 or not _stands(job_status, graph):
        return
    members = tuple(member for one in graph.accused for member in one.members)
    ranks = tuple(sorted(member.rank for member in members))
    group = f"{ranks_text(ranks)} of a sub-group" if graph.pattern == "stuck_group" else f"all {len(ranks):,} ranks"
    open_ended = any(one.kind in OPEN_KINDS for one in graph.accused)
    waiting = f"; {who_wait(graph.waiters, 'other')} for them" if graph.waiters else ""
    owners = [member.process for member in members if member.process is not None]
    gpus = load_proof(job_status.job, owners) if all(member.load != "unknown" for member in members) else None
    yield Finding(
        "collective_stalled", "critical", 0.55 if open_ended else 0.7,
        f"{group} wait {listed([one.told for one in graph.accused])} and none gets through; no rank is odd"
        f"{waiting}",
        ranks=ranks, nodes=nodes_of(members), evidence=_evidence(graph, members[:2], gpus),
        advice=UNNAMED if open_ended else AGREED,
        next=(next_step("a", "probe", *(nodes_of(members) or ("NODES",))),),
    )  # fmt: skip


def _stands(job_status: JobStatus, graph: WaitGraph) -> bool:
    """Ranks that spin are seen to stand still by their GPUs, which are full at little and even power."""
    if job_status.job.motion.moving:
        return False
    return graph.frozen or all(one.load == "spinning" for one in (*graph.culprits, *graph.waiters))


def _evidence(graph: WaitGraph, shown: Sequence[RankStatus], *more: Evidence | None) -> tuple[Evidence, ...]:
    looks = max((len(status.readings) for status in (*graph.waiters, *graph.culprits)), default=0)
    every = (*map(stack_of, shown[:4]), *waiters_of(graph), *more, watch_of(graph, looks))
    return tuple(line for line in every if line)


# --- nothing moves, and no other rule says why -------------------------------------------------------------------


def job_stalled(job_status: JobStatus, found: Sequence[Finding]) -> Iterator[Finding]:
    """job_stalled: the ranks are alive, none has moved by any sign for longer than is due, and nothing says why.

    Works without any stack. Names a rank where its GPU or its process is unlike those of all others. ``found`` are the
    findings of all other rules.
    """
    job = job_status.job
    if not stands(job) or job.motion.moving:
        return
    if any(f.kind == "waiting" or (f.severity != "info" and word_of(f.kind) in ("hung", "crashed")) for f in found):
        return
    present = [one for one in job_status.present if one.process is not None and one.state != "leaving"]
    if not present or any(job_status.works(one) or one.load == "computing" for one in job_status.statuses.values()):
        return
    if any(one.state == "unseen" and one.motion.moves_data for one in present):
        return  # nobody looked into it, and it saves or reads
    ages = [job.now - one.process.process.started for one in present if one.process is not None]
    if job.motion.last_step is None and max(ages) < START_S:
        return  # a start: see `startup`
    still = job.stood_still or 0.0
    if min(still, *(one.arrived for one in present)) < _due(job_status, present) or on_its_way(job, present):
        return
    odd, why = _odd(job_status, present)
    alone = present if len(present) == 1 and world_size(job) in (1, None) else []
    named = tuple(one.rank for one in odd or alone)
    accused = f"{ranks_on(named, {one.node for one in odd})}: {why}; " if odd else ""
    gpus = [one.process for one in present if one.process is not None and one.load != "unknown"]
    groups = _groups(present)
    step = f"; the last step in a log was {job.motion.last_step:,}" if job.motion.last_step is not None else ""
    yield Finding(
        "job_stalled", "critical", 0.8 if odd and odd[0].load == "idle" else 0.5,
        f"{accused}nothing has moved for {duration(still)}: {listed(groups, GROUPS_TOLD)}",
        ranks=named, nodes=nodes_of(odd or alone),
        evidence=(
            *((load_proof(job, gpus),) if gpus else ()),
            *(Evidence(Observer.CONTEXT, "ranks", job.now, group) for group in groups[:GROUPS_TOLD]),
            Evidence(Observer.CONTEXT, "watch", job.now, f"no sign of motion from {duration(still)} ago on{step}"),
        ),
        advice="It is the only rank, and waits for no other: look at what it does, and what that reads from or asks."
        if alone else SETTLES,
        next=(NextStep("r", "hangtop repair launch"),),
    )  # fmt: skip


def standing(job_status: JobStatus) -> str:
    """Where all ranks of a job are that has not moved for a while, and in which none waits for another; else empty."""
    job, present = job_status.job, job_status.present
    if not stands(job) or job.motion.moving or job_status.graph is not None:
        return ""
    if not present or not all(one.read for one in present):
        return ""
    return f"nothing has moved for {duration(job.stood_still or 0.0)}: {listed(_groups(present), GROUPS_TOLD)}"


def _due(job_status: JobStatus, present: Sequence[RankStatus]) -> float:
    """Seconds of standing still after which it is told: more where ranks are at something of their own.

    Of those that do not wait for others the last patience to be over counts; where no stack was read, ranks that burn
    CPU may compute.
    """
    due = job_status.alarm_after
    own = [job_status.due(one) for one in present if one.state == "working" and one.read and one.load != "spinning"]
    if own:
        return max(due, *own)
    if any(one.state == "unseen" and one.load == "unknown" and one.motion.busy for one in present):
        return max(due, SPIN_UNREAD_S)
    return due if sum(_rests(one) for one in present) * 2 >= len(present) else max(due, LONG_WORK_S)


def _rests(status: RankStatus) -> bool:
    """It is seen to wait for something: by its stack, its GPU or, unread, by using no CPU at all."""
    if status.state in ("waiting", "on_gpu", "stopped", "uninterruptible") or status.load in ("spinning", "idle"):
        return True
    return status.state == "unseen" and status.motion.blocked


def _odd(job_status: JobStatus, present: Sequence[RankStatus]) -> tuple[Sequence[RankStatus], str]:
    """Ranks that are unlike all others, and how: an empty GPU among full ones, a sleeper among those that spin.

    Or a rank that waits elsewhere but was not seen there for long enough, or that is gone.
    """
    empty = [one for one in present if one.load == "idle"]
    full = sum(one.load == "spinning" for one in present)
    if empty and full * 2 > len(present) and len(empty) + full == len(present):
        return empty, f"{'its GPU has' if len(empty) == 1 else 'their GPUs have'} nothing to do while {full} are full"
    by_manner: dict[str, list[RankStatus]] = defaultdict(list)
    for one in present:
        by_manner[_manner(one)].append(one)
    few, *most = sorted(by_manner.values(), key=len)
    if len(present) >= ENOUGH and len(most) == 1 and "" not in by_manner and len(few) <= max(1, len(present) // 4):
        return few, f"{_manner(few[0])} while the others {of_several(_manner(most[0][0]), len(most[0]))}"
    graph = job_status.graph
    if graph is not None and graph.pattern == "mismatch" and not graph.tied:
        return graph.culprits, f"{'wait' if len(graph.culprits) > 1 else 'waits'} elsewhere than the others"
    gone = job_status.of("gone")
    return gone, f"{'is' if len(gone) == 1 else 'are'} gone"


def _manner(status: RankStatus) -> str:
    """How its process rests, as far as /proc tells over two looks; empty when it does not."""
    moved = status.motion
    if moved.cpu is None or status.process is None or len(status.process.looks) < LATE_LOOKS:
        return ""
    if moved.busy or not moved.blocked:
        return "burns CPU" if moved.busy else ""
    return f"sleeps in {moved.wchan}" if moved.wchan and moved.wchan != "0" else "sleeps"


def _groups(present: Iterable[RankStatus]) -> list[str]:
    """``3 ranks wait for their GPU (synchronize), at train (train.py:50)``, the largest group first."""
    groups: dict[str, list[int]] = defaultdict(list)
    for one in present:
        doing = one.activity
        where = _manner(one) or "alive, and nobody could look into it"
        where += f", GPU {one.load}" if one.load != "unknown" else ""
        if doing is not None and not doing.error:
            where = doing.label + (f", at {doing.where}" if doing.where else "")
        groups[where].append(one.rank)
    ordered = sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[1]))
    return [f"{ranks_text(ranks)} {of_several(where, len(ranks))}" for where, ranks in ordered]
