"""What every rank of a job does: each by its own evidence, then by that of the ranks at the same line.

Ranks at one line are in one place, whatever the kernel says of each: where one of them is seen to wait, by its native
frames or by its GPU, the others wait as well. Native frames pause a process and cost half a second of CPU, so one rank
a point is asked for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.evidence.gpus import draws_work_power, gpu_loads
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node, Rank
from hangtop.diagnosis.roster import world_size
from hangtop.diagnosis.stacks.states import Activity, Meaning
from hangtop.diagnosis.tables.thresholds import SILENT_S, WORTH_SAYING_S
from hangtop.diagnosis.waits.rank_status import (
    WAITS,
    RankStatus,
    stands,
    status_of,
    timed,
    with_activity,
    with_meaning,
)

SERVERS = ("vllm::", "sglang::")
"""Beginnings of the titles of inference servers: their workers wait in a broadcast for the next request."""
FEW, TOGETHER_S = 256, 0.6
"""Ranks of which each look is compared with those at the others, and seconds within which a look meets all of them."""
MOST, MOST_TORN = 8, 4
"""Points that are asked for native frames in one go; of these, ranks that reading without a pause could not read."""


def statuses_of(job: Job) -> Mapping[int, RankStatus]:
    """Read all recent stacks of a job and tell what each rank does: by rank, including missing ones."""
    dumps, loads, world = _dumps_by_rank(job), gpu_loads(job), world_size(job)
    processes = {rank.rank: rank for rank in sorted(job.ranks, key=lambda rank: (rank.rank, rank.process.started))}
    numbers = set(dumps) | set(processes)
    if world is not None and job.live and processes and not job.unnumbered:  # any of these may be one that is missing
        numbers |= set(range(world))
    found = {}
    for number in sorted(numbers):
        (node, own), process = dumps.get(number, ("", [])), processes.get(number)
        load = loads.get(number, "unknown")
        found[number] = _absent(job, number, own, process) or status_of(job, number, node, own, process, load)
    found |= _told_by_peers(job, tuple(found.values()))
    present = [one for one in found.values() if one.present]
    if present and all(map(_only_listed, present)):
        return {}
    return {number: timed(job, one) for number, one in found.items()}


def not_responding(node: Node, now: float) -> bool:
    """True for a node that gives no answer, or gave one before and does no more: what it said last is history."""
    if node.link == "stale":
        return node.seen_at is not None and now - node.seen_at >= SILENT_S
    return node.link == "lost" or (node.link == "connecting" and bool(node.why))


def _only_listed(status: RankStatus) -> bool:
    """True for a process without a number that is idle: notebooks and servers are listed, and not judged.

    One that says no rank may be of a hung job, too: then anything among those that run the same waits for a peer, or
    was seen to work.
    """
    moved, process = status.motion, status.process
    if process is None or status.rank >= 0 or moved.moves_data or moved.helped:
        return False
    serves = process.process.label.lower().startswith(SERVERS)
    return (serves or status.state not in WAITS) and (moved.cpu is None or moved.blocked)


def _dumps_by_rank(job: Job) -> dict[int, tuple[str, list[StackDump]]]:
    """Dumps of each rank's newest process and its helpers, with the node; those of earlier processes are history.

    Once a job stands still, what it did before says nothing about where it stands.
    """
    known = {**{(rank.node, rank.process.pid): rank.rank for rank in job.ranks}, **job.stack_ranks}
    newest = {rank.rank: (rank.node, rank.process.pid) for rank in job.ranks}
    since = job.now - (job.stood_still or 0.0) if stands(job) else float("-inf")
    looks = [pair for pair in zip(job.stack_nodes, job.stacks, strict=False) if pair[1].at >= since]
    by_owner: dict[tuple[str, int], list[StackDump]] = defaultdict(list)
    for node, dump in looks or zip(job.stack_nodes, job.stacks, strict=False):
        by_owner[node, dump.rank_pid].append(dump)
    found: dict[int, tuple[str, list[StackDump]]] = {}
    for owner, dumps in sorted(by_owner.items(), key=lambda pair: (max(dump.at for dump in pair[1]), pair[0])):
        rank = known.get(owner)
        if rank is not None and newest.get(rank, owner) == owner:
            found[rank] = owner[0], sorted(dumps, key=lambda dump: (dump.at, dump.pid))
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


# --- ranks at one line -------------------------------------------------------------------------------------------


def _told_by_peers(job: Job, statuses: Sequence[RankStatus]) -> dict[int, RankStatus]:
    """Ranks of which their GPU, a rank at the same line, or most of the job at that line tells that they wait.

    ``handle.wait()``, a lock and a wait for the GPU look the same without native frames. A rank that is alone there is
    stuck on something of its own; most of the job waits for an operation that all began, whether the kernel says that
    the ranks sleep, spin or nap between two polls. All of the job there may as well be a step that takes long in C
    code. A rank at the line at which another one is seen to wait waits as that one does.
    """
    quiet = job.live and (job.stood_still or 0.0) >= WORTH_SAYING_S and not job.motion.moving
    found: dict[int, RankStatus] = {}
    at_line: dict[str, list[RankStatus]] = defaultdict(list)
    waits_at: dict[str, Activity] = {}
    dumped = [(one, one.activity) for one in statuses if one.activity is not None]
    for one, doing in dumped:
        if one.state in WAITS and one.where:
            waits_at[one.where] = doing
        elif one.state == "working" and one.load != "computing" and not doing.moving:
            if quiet and one.load == "spinning" and doing.native_would_tell:
                full = doing.taken_as(Meaning.GPU_FULL)
                found[one.rank] = with_activity(one, full)
                waits_at.setdefault(one.where, full)
            elif _is_opaque(doing):
                at_line[one.where].append(one)
    for where, own in at_line.items():
        if where in waits_at:
            meant = ((one, with_meaning(one.activity, waits_at[where])) for one in own if one.activity is not None)
            found |= {one.rank: with_activity(one, doing) for one, doing in meant}
        elif 1 < len(own) < len(dumped) <= 2 * len(own):
            elsewhere = any(one.state not in (*WAITS, "unseen") and one.where != where for one in statuses)
            if all(one.in_c_code or one.motion.blocked for one in own) or ((stands(job) or not job.live) and elsewhere):
                found |= {one.rank: one._replace(state="waiting") for one in own}
    return found


def with_waits_of_many(job: Job, statuses: Sequence[RankStatus]) -> Sequence[RankStatus]:
    """The same, with looks at a call that Python does not show as waits, where most ranks were in it, and not all.

    A job that goes on is not stopped for its native frames, and over NCCL most of its waits are such calls. A GPU that
    draws the power of work computes, and its rank does not wait. Of a few hundred ranks at the most.
    """
    at_line: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for one in statuses if 2 < len(statuses) <= FEW else ():
        for look in filter(_is_opaque, one.readings):
            at_line[look.where].append((look.at, one.rank))

    def told(look: Activity) -> Activity:
        there = {rank for at, rank in at_line.get(look.where, ()) if abs(at - look.at) <= TOGETHER_S}
        most = len(statuses) < 2 * len(there) < 2 * len(statuses) and _is_opaque(look)
        return look.taken_as(Meaning.GPU_FULL) if most else look

    def of_rank(one: RankStatus) -> RankStatus:
        if one.activity is None or (at_line and one.process and draws_work_power(job, one.process)):
            return one
        return one._replace(activity=one.activity._replace(readings=tuple(map(told, one.readings))))

    return [of_rank(one) for one in statuses]


def _is_opaque(doing: Activity) -> bool:
    """Python frames end at a line of the user's that called C code, and do not tell what that waits for."""
    named = doing.kind in ("code", "sleep") or doing.by_name  # a function's name tells no wait
    open_ended = named and doing.waits in ("nothing", "unknown", "time")
    return open_ended and not doing.by_frame and bool(doing.where) and not doing.error


def to_ask_natively(statuses: Collection[RankStatus]) -> tuple[int, ...]:
    """One rank of each point whose Python frames leave open what happens there, the points of most ranks first.

    Before them ranks that no look could read, for they change under the eye: in a job that stands still the busy one
    is most likely the one that the others wait for, and only a read that pauses it is whole.
    """
    present = [(one, one.activity) for one in statuses if one.present and one.activity is not None]
    torn = [one.rank for one, doing in present if doing.error == "torn"][:MOST_TORN]
    by_point: dict[tuple[str, ...], list[tuple[int, Activity]]] = defaultdict(list)
    for one, doing in present:
        if not doing.error:
            by_point[doing.place, doing.where, one.load].append((one.rank, doing))
    left_open = (point for point in by_point.values() if all(doing.native_would_tell for _, doing in point))
    stay = filter(None, ([rank for rank, doing in point if not doing.moving] for point in left_open))
    groups = sorted(stay, key=lambda ranks: (-len(ranks), ranks))
    return (*torn, *(ranks[0] for ranks in groups[: MOST - len(torn)]))
