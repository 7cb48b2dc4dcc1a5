"""The job as its stacks and processes tell it: where every rank stands, and since when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.evidence.gpus import gpu_loads
from hangtop.diagnosis.job import Job, Node, Rank
from hangtop.diagnosis.roster import world_size
from hangtop.diagnosis.tables.thresholds import SILENT_S
from hangtop.diagnosis.waits.looks import with_meaning
from hangtop.diagnosis.waits.native import is_opaque, told_at_same_point, told_by_gpu
from hangtop.diagnosis.waits.rank_status import WAITS, RankStatus, frozen, in_c_code, stands, status_of

STOPPED_WITHIN_S, STOPPED_WITHIN_SHARE = 2.0, 0.2
"""Seconds, and share of its standing still, by which it is not known when exactly a job stopped: a look in that time
may have met a rank on its way, and does not count beside one that came later."""
SERVERS = ("vllm::", "sglang::")
"""Beginnings of the titles of inference servers: their workers wait in a broadcast for the next request."""


def statuses_of(job: Job) -> Mapping[int, RankStatus]:
    """Read all recent stacks of a job and tell what each rank does: by rank, including missing ones."""
    dumps = _dumps_by_rank(job)
    processes = {rank.rank: rank for rank in sorted(job.ranks, key=lambda rank: (rank.rank, rank.process.started))}
    numbers = set(dumps) | set(processes)
    world = world_size(job)
    if world is not None and job.live and processes and not job.unnumbered:  # any of these may be one that is missing
        numbers |= set(range(world))
    loads = gpu_loads(job)
    statuses = {}
    for number in sorted(numbers):
        node, own = dumps.get(number, ("", []))
        process = processes.get(number)
        statuses[number] = _absent(job, number, own, process) or status_of(
            job, number, node, own, process, loads.get(number, "unknown")
        )
    statuses |= told_at_same_point(job, statuses.values())
    statuses |= told_by_gpu(job, statuses.values())
    statuses |= {
        one.rank: one._replace(frozen=frozen(job, one))
        for one in statuses.values()
        if one.present and (one.activity or job.patience <= 0)
    }
    statuses |= _at_one_line(job, tuple(statuses.values()))
    return {} if _only_listed(statuses.values()) else statuses


def not_responding(node: Node, now: float) -> bool:
    """True for a node that gives no answer, or gave one before and does no more: what it said last is history."""
    if node.link == "stale":
        return node.seen_at is not None and now - node.seen_at >= SILENT_S
    return node.link == "lost" or (node.link == "connecting" and bool(node.why))


def _at_one_line(job: Job, statuses: Sequence[RankStatus]) -> dict[int, RankStatus]:
    """Count ranks as waiting that most of the job is with at one line, in a call of C that has no frame of its own.

    ``handle.wait()``, a lock and a wait for the GPU look the same without native frames. A rank that is alone there is
    stuck on something of its own; most of the job waits for an operation that all began, whether the kernel says that
    the ranks sleep, spin or nap between two polls: three ranks in ``synchronize()`` wait with each other for the rank
    in ``tune_kernels``. All of the job there may as well be a step that takes long in C code. A rank at the line at
    which another one is seen to wait waits as that one does.
    """
    dumped = [one for one in statuses if one.activity and one.readings]
    waits_at = {one.where: one for one in dumped if one.state in WAITS and one.where}
    at_line: dict[str, list[RankStatus]] = defaultdict(list)
    found: dict[int, RankStatus] = {}
    for one in dumped:
        doing = one.activity
        opaque = doing is not None and not doing.moving and is_opaque(doing)
        if one.state == "working" and opaque and one.load != "computing":
            at_line[one.where].append(one)
            there = waits_at.get(one.where)
            if there is not None and there.activity is not None and one.activity is not None:
                found[one.rank] = one._replace(state=there.state, activity=with_meaning(one.activity, there.activity))
    for where, own in at_line.items():
        if not 1 < len(own) < len(dumped) or 2 * len(own) < len(dumped):
            continue
        elsewhere = any(one.state not in (*WAITS, "unseen") and one.where != where for one in statuses)
        if all(in_c_code(one) or one.blocked for one in own) or ((stands(job) or not job.live) and elsewhere):
            found.update((one.rank, one._replace(state="waiting")) for one in own)
    return found


def _only_listed(statuses: Iterable[RankStatus]) -> bool:
    """True for processes that are all without a number and idle: notebooks and servers are listed, and not judged.

    A process that says no rank may be one of a hung job, too. Which it is tells whether anything among those that run
    the same waits for a peer, or was seen to work.
    """
    present = [status for status in statuses if status.present]
    return bool(present) and all(_idle(status) for status in present)


def _idle(status: RankStatus) -> bool:
    if status.process is None or status.rank >= 0:
        return False
    if status.state in WAITS and not status.process.process.label.lower().startswith(SERVERS):
        return False
    motion = status.motion
    return not ((motion.cpu is not None and not motion.blocked) or motion.moves_data or motion.helped)


def _dumps_by_rank(job: Job) -> dict[int, tuple[str, list[StackDump]]]:
    """Dumps of each rank's newest process and its helpers, with the node; those of earlier processes are history.

    Once a job stands still, what it did before says nothing about where it stands.
    """
    if not job.stacks:
        return {}
    known = {**{(rank.node, rank.process.pid): rank.rank for rank in job.ranks}, **job.stack_ranks}
    newest = {rank.rank: (rank.node, rank.process.pid) for rank in job.ranks}
    still = job.stood_still or 0.0
    recent = job.now - still if stands(job) else float("-inf")
    if not any(dump.at >= recent for dump in job.stacks):
        recent = float("-inf")
    settled = recent + min(STOPPED_WITHIN_S, STOPPED_WITHIN_SHARE * still)
    by_owner: dict[tuple[str, int], list[StackDump]] = defaultdict(list)
    for node, dump in zip(job.stack_nodes, job.stacks, strict=False):
        if dump.at >= recent:
            by_owner[node, dump.rank_pid].append(dump)
    found: dict[int, tuple[str, list[StackDump]]] = {}
    for owner, dumps in sorted(by_owner.items(), key=lambda pair: (max(dump.at for dump in pair[1]), pair[0])):
        rank = known.get(owner)
        if rank is not None and newest.get(rank, owner) == owner:
            dumps.sort(key=lambda dump: (dump.at, dump.pid))
            late = [dump for dump in dumps if dump.at >= settled]
            found[rank] = owner[0], late if any(dump.pid == dump.rank_pid for dump in late) else dumps
    return found


def _absent(job: Job, number: int, dumps: list[StackDump], process: Rank | None) -> RankStatus | None:
    """A rank that is not there; None for one that is, or of which there are dumps at least."""
    if process is None:
        return None if dumps else RankStatus(number, "", "missing")
    if process.gone_at is not None:
        return RankStatus(number, process.node, "gone", process, held=max(0.0, job.now - process.gone_at))
    home = job.nodes.get(process.node)
    if home is not None and not_responding(home, job.now):
        return RankStatus(number, process.node, "missing", process)
    return None
