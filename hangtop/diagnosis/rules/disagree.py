"""Every rank waits: at different operations, in a circle of sends and receives, or all at the same one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from hangtop.diagnosis.evidence.gpus import load_proof
from hangtop.diagnosis.finding import Evidence, Finding, NextStep, Observer, next_step
from hangtop.diagnosis.phrasing import count, duration, listed, of_several, rank_text, ranks_on, ranks_text, who_wait
from hangtop.diagnosis.rules.not_launched import CODE
from hangtop.diagnosis.rules.stuck import COMING_UP, WHOLE_START
from hangtop.diagnosis.tables.kinds import word_of
from hangtop.diagnosis.tables.thresholds import LONG_WORK_S, START_S
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
    "From outside all ranks look alike. What would tell a rank that left a collective out from a network or a GPU that "
    "does not answer: stacks (run hangtop as the job's user or root), flight recorder dumps (press r), NCCL RAS, "
    "NCCL_DEBUG=INFO with the subsystem COLL, the allreduce probe."
)
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
    others = "".join(f", {count(len(point.members), 'other')} {point.told}" for point in waiters[:1])
    yield Finding(
        "collective_mismatch", "critical", weight_of(job_status, graph, graph.culprits),
        f"ranks wait at different {graph.by if graph.by == 'lines' else 'operations'}: {odd}{others}",
        ranks=tuple(culprit.rank for culprit in graph.culprits), nodes=nodes_of(graph.culprits),
        evidence=_evidence(graph, graph.culprits), advice=CODE,
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
    peers = {one.rank: one.activity.peer if one.activity else None for one in graph.culprits}
    steps = [
        f"{rank_text(one.rank)} in {one.activity.op if one.activity else 'p2p'}"
        f"{'' if peers[one.rank] is None else f' with rank {peers[one.rank]}'}" for one in graph.culprits
    ]  # fmt: skip
    yield Finding(
        "p2p_deadlock", "critical", 0.93 if None not in peers.values() and graph.frozen else 0.75,
        f"sends and receives wait in a circle: {listed(steps)}{_waiting(graph)}",
        ranks=tuple(peers), nodes=nodes_of(graph.culprits), evidence=_evidence(graph, graph.culprits),
        advice="Pair sends with receives: even ranks send first, odd ranks receive first; or use batch_isend_irecv.",
    )  # fmt: skip


def stalled(job_status: JobStatus) -> Iterator[Finding]:
    """collective_stalled: every rank of a group is in the same operation and none completes; no rank is odd.

    Ranks that spin (NCCL keeps the CPU busy) count only where their GPUs spin too, at low flat power, and nothing else
    shows that the job moves. Without figures of the GPUs the wait must outlast three steps of the job.
    """
    graph = job_status.graph
    if graph is None or graph.pattern not in ("stalled", "stuck_group") or not job_status.hung:
        return
    point = graph.accused[0]
    if point.kind in ("init", "store", "code", "sleep") or len(point.members) < 2 or not _stands(job_status, graph):
        return
    members = tuple(member for one in graph.accused for member in one.members)
    unseen = any(one.kind == "device" for one in graph.accused) and all(one.load == "unknown" for one in members)
    if unseen and job_status.job.live and graph.held < job_status.kernels_due:
        return
    ranks = tuple(sorted(member.rank for member in members))
    group = f"{ranks_text(ranks)} of a sub-group" if graph.pattern == "stuck_group" else f"all {len(ranks):,} ranks"
    open_ended = any(one.kind in OPEN_KINDS for one in graph.accused)
    owners = [member.process for member in members if member.process is not None]
    gpus = load_proof(job_status.job, owners) if all(member.load != "unknown" for member in members) else None
    yield Finding(
        "collective_stalled", "critical", 0.55 if open_ended else 0.7,
        f"{group} wait {listed([one.told for one in graph.accused])} and none gets through; "
        f"no rank is odd{_waiting(graph)}",
        ranks=ranks, nodes=nodes_of(members), evidence=_evidence(graph, members[:2], gpus),
        advice=UNNAMED if open_ended else AGREED,
        next=(next_step("a", "probe", *(nodes_of(members) or ("NODES",))),),
    )  # fmt: skip


def _waiting(graph: WaitGraph) -> str:
    return f"; {who_wait(graph.waiters, 'other')} for them" if graph.waiters else ""


def _stands(job_status: JobStatus, graph: WaitGraph) -> bool:
    """Ranks that spin are seen to stand still by their GPUs, which are full at little and even power."""
    if job_status.job.motion.moving and not graph.part:
        return False
    return graph.frozen or all(one.load == "spinning" for one in (*graph.culprits, *graph.waiters))


def _evidence(graph: WaitGraph, shown: Sequence[RankStatus], *more: Evidence | None) -> tuple[Evidence, ...]:
    looks = max((len(status.readings) for status in (*graph.waiters, *graph.culprits)), default=0)
    every = (*map(stack_of, shown[:4]), *waiters_of(graph), *more, watch_of(graph, looks))
    return tuple(line for line in every if line)


# --- nothing moves, and no other rule says why -------------------------------------------------------------------


def job_stalled(job_status: JobStatus, found: Sequence[Finding]) -> Iterator[Finding]:
    """job_stalled: the ranks are alive, none has moved by any sign for longer than is due, and nothing says why.

    Works without any stack. Named are ranks whose GPUs have nothing to do while those of all others are full, and the
    only rank of a job. ``found`` are the findings of all other rules.
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
    if min([still, *(one.held for one in present if one.read)]) < _due(job_status, present) or on_its_way(job, present):
        return
    lasted = job_status.lasted(still)
    empty = [one for one in present if one.load == "idle"]
    full = sum(one.load == "spinning" for one in present)
    odd = empty if full * 2 > len(present) and len(empty) + full == len(present) else []
    named = odd or (present if len(present) == 1 else [])
    ranks = tuple(one.rank for one in named)
    accused = f"{ranks_on(ranks, nodes_of(odd))}: no work for the GPU while {full} others are full; " if odd else ""
    gpus = [one.process for one in present if one.process is not None and one.load != "unknown"]
    groups = _groups(present)
    step = f"; the last step in a log was {job.motion.last_step:,}" if job.motion.last_step is not None else ""
    yield Finding(
        "job_stalled", "critical", 0.8 if odd else 0.5,
        f"{accused}nothing has moved for {duration(lasted)}: {listed(groups, GROUPS_TOLD)}",
        ranks=ranks, nodes=nodes_of(named),
        evidence=(
            *((load_proof(job, gpus),) if gpus else ()),
            *(Evidence(Observer.CONTEXT, "ranks", job.now, group) for group in groups[:GROUPS_TOLD]),
            Evidence(Observer.CONTEXT, "watch", job.now, f"no sign of motion from {duration(lasted)} ago on{step}"),
        ),
        advice="Look at what the rank does, and what that reads from or asks." if ranks else UNNAMED,
        next=(NextStep("r", "hangtop analyze FLIGHT_RECORDER_DUMPS"),),
    )  # fmt: skip


def standing(job_status: JobStatus) -> str:
    """Where all ranks of a job are that has not moved for a while, and in which none is odd; else empty."""
    job, present, graph = job_status.job, job_status.present, job_status.graph
    if not stands(job) or job.motion.moving or (graph is not None and graph.pattern != "stalled"):
        return ""
    if not present or not all(one.read for one in present):
        return ""
    lasted = duration(job_status.lasted(job.stood_still or 0.0))
    return f"nothing has moved for {lasted}: {listed(_groups(present), GROUPS_TOLD)}"


def _due(job_status: JobStatus, present: Sequence[RankStatus]) -> float:
    """Seconds of standing still after which it is told: more where ranks are at something of their own.

    Of those that do not wait for others the last patience to be over counts; a rank that nobody could look into and
    that burns CPU, and ranks that are not seen to wait, may compute.
    """
    due = job_status.alarm_after
    if any(one.state == "on_gpu" and one.load == "unknown" for one in present):
        due = max(due, job_status.kernels_due)
    own = [job_status.due(one) for one in present if one.state == "working" and one.read and one.load != "spinning"]
    if own:
        return max(due, *own)
    rests = sum(
        one.state in ("waiting", "on_gpu", "stopped", "uninterruptible") or one.load in ("spinning", "idle")
        or (one.state == "unseen" and one.motion.blocked) for one in present
    )  # fmt: skip
    burns_unseen = any(one.state == "unseen" and one.load == "unknown" and one.motion.busy for one in present)
    return max(due, LONG_WORK_S) if burns_unseen or rests * 2 < len(present) else due


def _groups(present: Iterable[RankStatus]) -> list[str]:
    """``3 ranks wait for their GPU (synchronize), at train (train.py:50)``, the largest group first."""
    groups: dict[str, list[int]] = defaultdict(list)
    for one in present:
        doing = one.activity
        where = "burns CPU" if one.motion.busy else "sleeps" if one.motion.blocked else "alive, and not looked into"
        where += f", GPU {one.load}" if one.load != "unknown" else ""
        if doing is not None and not doing.error:
            where = doing.label + (f", at {doing.where}" if doing.where else "")
        groups[where].append(one.rank)
    ordered = sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[1]))
    return [f"{ranks_text(ranks)} {of_several(where, len(ranks))}" for where, ranks in ordered]


STATUS_RULES = (mismatch, deadlock, stalled)
