"""The job as its stacks and processes tell it: where every rank stands, and since when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.evidence.gpus import gpu_loads
from hangtop.diagnosis.job import Job, Node, Rank
from hangtop.diagnosis.roster import world_size
from hangtop.diagnosis.tables.thresholds import SILENT_S
from hangtop.diagnosis.waits.peers import told_by_peers
from hangtop.diagnosis.waits.rank_status import WAITS, RankStatus, frozen, stands, status_of

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
    statuses |= told_by_peers(job, tuple(statuses.values()))
    statuses |= {one.rank: one._replace(frozen=frozen(job, one)) for one in statuses.values() if one.activity}
    return {} if _only_listed(statuses.values()) else statuses


def not_responding(node: Node, now: float) -> bool:
    """True for a node that gives no answer, or gave one before and does no more: what it said last is history."""
    if node.link == "stale":
        return node.seen_at is not None and now - node.seen_at >= SILENT_S
    return node.link == "lost" or (node.link == "connecting" and bool(node.why))


def _only_listed(statuses: Iterable[RankStatus]) -> bool:
    """True for processes that are all without a number and idle: notebooks and servers are listed, and not judged.

    A process that says no rank may be one of a hung job, too. Which it is tells whether anything among those that run
    the same waits for a peer, or was seen to work.
    """
    present = [status for status in statuses if status.present]
    return bool(present) and all(_idle(status) for status in present)


def _idle(status: RankStatus) -> bool:
    moved = status.motion
    if status.process is None or status.rank >= 0 or moved.moves_data or moved.helped:
        return False
    serves = status.process.process.label.lower().startswith(SERVERS)
    return (serves or status.state not in WAITS) and (moved.cpu is None or moved.blocked)


def _dumps_by_rank(job: Job) -> dict[int, tuple[str, list[StackDump]]]:
    """Dumps of each rank's newest process and its helpers, with the node; those of earlier processes are history.

    Once a job stands still, what it did before says nothing about where it stands.
    """
    known = {**{(rank.node, rank.process.pid): rank.rank for rank in job.ranks}, **job.stack_ranks}
    newest = {rank.rank: (rank.node, rank.process.pid) for rank in job.ranks}
    still = (job.stood_still or 0.0) if stands(job) else float("inf")
    recent = job.now - still if any(dump.at >= job.now - still for dump in job.stacks) else float("-inf")
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
