"""Everybody waits: at different operations, in a circle of sends and receives, or all at the same one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangtop.diagnosis.evidence.gpu_load import load_proof
from hangtop.diagnosis.finding import Evidence, Finding, NextStep, next_step
from hangtop.diagnosis.phrasing import count, listed, rank_text, ranks_text, who_wait
from hangtop.diagnosis.rules.stuck import COMING_UP, NOT_LAUNCHED, WHOLE_START
from hangtop.diagnosis.waits.evidence import stack_of, threads_of, waiters_of, watch_of
from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.network_threads import none_under_way, two_under_way
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of
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
TWO_GROUPS = (
    "Look for collectives of two groups that ranks call in another order, or from two threads: each waits in the one "
    "for who waits in the other. Else one operation does not end, and holds up the other. "
)


def mismatch(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch: all ranks wait, and not at the same operation; the minority is the odd one.

    Needs stacks of all ranks of the job that can be seen, in two looks or more. A wait in a sub-group ends before the
    wait of the waiters. Where nothing tells which side is odd, both are named.
    """
    graph = job_status.graph
    if graph is None or graph.pattern != "mismatch" or not job_status.hung:
        return
    if all(point.kind in COMING_UP for point in graph.points) or any(point.op in WHOLE_START for point in graph.points):
        return  # they wait at different steps of one start, or some start while others train: that is init_hang
    if graph.by == "lines" and not _stands(job_status, graph):
        return
    waiters = [point for point in graph.points if point not in graph.accused]
    odd = " and ".join(f"{ranks_text(point.ranks)} {point.told}" for point in graph.accused)
    others = " and ".join(f"{count(len(point.members), 'other')} {point.told}" for point in waiters[:2])
    every = (*graph.culprits, *graph.waiters)
    apart = none_under_way(every) if any(point.kind == "device" for point in graph.points) else None
    yield Finding(
        "collective_mismatch", "critical", weight_of(job_status, graph, graph.culprits),
        f"ranks wait at different {graph.by if graph.by == 'lines' else 'operations'}: {odd}"
        + (f", {others}" if others else ""),
        ranks=tuple(culprit.rank for culprit in graph.culprits),
        nodes=nodes_of(graph.culprits),
        evidence=(
            *_stacks(graph.culprits), *waiters_of(graph),
            *((threads_of(job_status, every, apart),) if apart else ()),
            watch_of(graph, _looks(graph)),
        ),
        advice="Look for a collective behind `if rank == …`, for ranks with a different number of batches, or for "
        "branches that depend on the data.",
        next=(NextStep("r", "hangtop analyze FLIGHT_RECORDER_DUMPS"),),
    )  # fmt: skip


def deadlock(job_status: JobStatus) -> Iterator[Finding]:
    """p2p_deadlock: ranks wait to receive from (or to send to) one another in a circle.

    Needs stacks in two looks or more; the peers where the frames tell them, else all must want the same side. GPUs that
    compute are none of a circle's: what they compute will be sent.
    """
    graph = job_status.graph
    if graph is None or graph.pattern != "deadlock" or not job_status.hung:
        return
    loads = {culprit.load for culprit in graph.culprits}
    if "unknown" not in loads and not loads <= {"spinning", "idle"}:
        return
    steps = []
    for culprit in graph.culprits:
        doing = culprit.activity
        peer = f" with rank {doing.peer}" if doing and doing.peer is not None else ""
        steps.append(f"{rank_text(culprit.rank)} in {doing.op if doing else 'p2p'}{peer}")
    known = all(culprit.activity and culprit.activity.peer is not None for culprit in graph.culprits)
    waiting = f"; {who_wait(graph.waiters, 'other')} for them" if graph.waiters else ""
    yield Finding(
        "p2p_deadlock", "critical", 0.93 if known and graph.frozen else 0.75,
        f"sends and receives wait in a circle: {listed(steps)}{waiting}",
        ranks=tuple(culprit.rank for culprit in graph.culprits),
        nodes=nodes_of(graph.culprits),
        evidence=(*_stacks(graph.culprits), *waiters_of(graph), watch_of(graph, _looks(graph))),
        advice="Pair sends with receives: even ranks send first, odd ranks receive first; or use batch_isend_irecv.",
    )  # fmt: skip


def stalled(job_status: JobStatus) -> Iterator[Finding]:
    """collective_stalled: every rank of a group is in the same operation and none completes; no rank is odd.

    Needs stacks of all ranks in two looks or more. Ranks that spin (NCCL keeps the CPU busy) count only where their
    GPUs spin too, at low flat power, and nothing else shows that the job moves.
    """
    graph = job_status.graph
    if graph is None or graph.pattern not in ("stalled", "stuck_group") or not job_status.hung:
        return
    point = graph.accused[0]
    if point.kind in ("init", "store", "code") or len(point.members) < 2 or not _stands(job_status, graph):
        return
    members = tuple(member for one in graph.accused for member in one.members)
    ranks = tuple(sorted(member.rank for member in members))
    what = listed([one.told for one in graph.accused])
    group = f"{ranks_text(ranks)} of a sub-group" if graph.pattern == "stuck_group" else f"all {len(ranks):,} ranks"
    open_ended = any(one.kind in OPEN_KINDS for one in graph.accused)
    waiting = f"; {who_wait(graph.waiters, 'other')} for them" if graph.waiters else ""
    apart = none_under_way(members)
    both = apart is None and two_under_way(members)
    odd = "no rank is odd" if apart is None else f"{rank_text(apart.rank)} alone has nothing under way in the network"
    owners = [member.process for member in members if member.process is not None]
    gpus = (load_proof(job_status.job, owners),) if all(member.load != "unknown" for member in members) else ()
    yield Finding(
        "collective_stalled", "critical", 0.55 if open_ended else 0.7,
        f"{group} wait {what} and none gets through; {odd}{', each has two operations under way' * both}{waiting}",
        ranks=ranks,
        nodes=nodes_of(members),
        evidence=(
            *_stacks(members[:2]), *waiters_of(graph), *gpus,
            *((threads_of(job_status, members, apart or members[0]),) if apart or both else ()),
            watch_of(graph, _looks(graph)),
        ),
        advice=TWO_GROUPS * both
        + (UNNAMED if apart is None and open_ended else AGREED if apart is None else NOT_LAUNCHED),
        next=(next_step("a", "probe", *(nodes_of(members) or ("NODES",))),),
    )  # fmt: skip


def _stands(job_status: JobStatus, graph: WaitGraph) -> bool:
    """Ranks that spin are seen to stand still by their GPUs, which are full at little and even power."""
    if job_status.job.motion.moving:
        return False
    return graph.frozen or all(one.load == "spinning" for one in (*graph.culprits, *graph.waiters))


def _stacks(statuses: Sequence[RankStatus]) -> tuple[Evidence, ...]:
    return tuple(line for line in map(stack_of, statuses[:4]) if line)


def _looks(graph: WaitGraph) -> int:
    return max((len(status.readings) for status in (*graph.waiters, *graph.culprits)), default=0)
