"""The status of every rank of a job: first from its own evidence, then from the ranks at the same line.

Ranks at one line are at one point of the program, whatever the kernel reports for each: if native frames or the GPU of
one rank show a wait, the other ranks wait as well. A dump with native frames pauses a process and costs half a second
of CPU, so one rank per point is dumped that way.
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
from hangtop.diagnosis.waits.rank_status import WAITS, RankStatus, stands, status_of, timed, with_activity, with_meaning

SERVERS = ("vllm::", "sglang::")
"""Prefixes of the process titles of inference servers, whose idle workers wait in a broadcast for a request."""
FEW, TOGETHER_S = 256, 0.6
"""Most ranks whose single samples are compared with each other; seconds within which samples count as simultaneous."""
MOST, MOST_TORN = 8, 4
"""Most ranks dumped with native frames in one go; most of them whose stacks were torn without a pause."""


def statuses_of(job: Job) -> Mapping[int, RankStatus]:
    """Status by rank, from all recent stacks of a job whose ranks are in order; missing ranks are included."""
    dumps, loads, world = _dumps_by_rank(job), gpu_loads(job), world_size(job)
    processes = {rank.rank: rank for rank in job.ranks}
    numbers = set(dumps) | set(processes)
    if world is not None and job.live and processes and not job.unnumbered:  # an unnumbered one may be a missing rank
        numbers |= set(range(world))
    statuses = {}
    for number in sorted(numbers):
        (node, samples), process = dumps.get(number, ("", [])), processes.get(number)
        absent, load = _absent(job, number, samples, process), loads.get(number, "unknown")
        statuses[number] = absent or status_of(job, number, node, samples, process, load)
    statuses |= _by_peers(job, tuple(statuses.values()))
    present = [status for status in statuses.values() if status.present]
    if present and all(map(_only_listed, present)):
        return {}
    return {number: timed(job, status) for number, status in statuses.items()}


def not_responding(node: Node, now: float) -> bool:
    """True for a node that does not answer, or no longer: its last samples say nothing about now."""
    if node.link == "stale":
        return node.seen_at is not None and now - node.seen_at >= SILENT_S
    return node.link == "lost" or (node.link == "connecting" and bool(node.why))


def _only_listed(status: RankStatus) -> bool:
    """True for an idle process without a rank number: notebooks and servers are listed, but not judged.

    Processes without a number may also be a hung job: then at least one of them waits for a peer, or was seen working.
    """
    moved, process = status.motion, status.process
    if process is None or status.rank >= 0 or moved.moves_data or moved.helped:
        return False
    serves = process.process.label.lower().startswith(SERVERS)
    return (serves or status.state not in WAITS) and (moved.cpu is None or moved.blocked)


def _dumps_by_rank(job: Job) -> dict[int, tuple[str, list[StackDump]]]:
    """Node and dumps of each rank, of its newest process and the helpers; dumps of earlier processes are left out.

    Once a job stands still, dumps from before are left out as well, unless there are no others.
    """
    known = {**{(rank.node, rank.process.pid): rank.rank for rank in job.ranks}, **job.stack_ranks}
    newest = {rank.rank: (rank.node, rank.process.pid) for rank in job.ranks}
    since = job.now - (job.stood_still or 0.0) if stands(job) else float("-inf")
    samples = [pair for pair in zip(job.stack_nodes, job.stacks, strict=False) if pair[1].at >= since]
    by_owner: dict[tuple[str, int], list[StackDump]] = defaultdict(list)
    for node, dump in samples or zip(job.stack_nodes, job.stacks, strict=False):
        by_owner[node, dump.rank_pid].append(dump)
    by_rank: dict[int, tuple[str, list[StackDump]]] = {}
    for owner, dumps in sorted(by_owner.items(), key=lambda pair: (max(dump.at for dump in pair[1]), pair[0])):
        rank = known.get(owner)
        if rank is not None and newest.get(rank, owner) == owner:
            by_rank[rank] = owner[0], sorted(dumps, key=lambda dump: (dump.at, dump.pid))
    return by_rank


def _absent(job: Job, number: int, dumps: list[StackDump], process: Rank | None) -> RankStatus | None:
    """The status of a rank that is gone or missing; None for a rank with a process, or at least with dumps."""
    if process is None:
        return None if dumps else RankStatus(number, "", "missing")
    if process.gone_at is not None:
        return RankStatus(number, process.node, "gone", process, held=max(0.0, job.now - process.gone_at))
    home = job.nodes.get(process.node)
    if home is not None and not_responding(home, job.now):
        return RankStatus(number, process.node, "missing", process)
    return None


# --- ranks at one line -------------------------------------------------------------------------------------------


def _by_peers(job: Job, statuses: Sequence[RankStatus]) -> dict[int, RankStatus]:
    """Ranks that wait according to their GPU, to another rank at the same line, or to most ranks at the same line.

    Without native frames, ``handle.wait()``, a lock and a wait for the GPU look the same. A single rank at such a line
    is stuck on something of its own. Most ranks at one line wait for an operation that all ranks began, whether the
    kernel shows them asleep, spinning or polling. All ranks at one line may also be in a long step in C code. A rank at
    the line of a waiting rank has the same wait; a rank at a socket only if that wait is the start of a communicator,
    as in NCCL's bootstrap: else it may ask a server.
    """
    quiet = job.live and (job.stood_still or 0.0) >= WORTH_SAYING_S and not job.motion.moving
    changed: dict[int, RankStatus] = {}
    at_line: dict[str, list[tuple[RankStatus, Activity]]] = defaultdict(list)
    waits_at: dict[str, Activity] = {}
    dumped = [(status, status.activity) for status in statuses if status.activity is not None]
    for status, doing in dumped:
        if status.state in WAITS and status.where:
            waits_at[status.where] = doing
        elif status.state == "working" and status.load != "computing" and not doing.moving:
            if quiet and status.load == "spinning" and doing.needs_native and doing.kind != "sleep":
                full = doing.taken_as(Meaning.GPU_FULL)
                changed[status.rank] = with_activity(status, full)
                waits_at.setdefault(status.where, full)
            elif _is_opaque(doing) or _may_start(doing):
                at_line[status.where].append((status, doing))
    for where, members in at_line.items():
        opaque = [status for status, doing in members if _is_opaque(doing)]
        if where in waits_at:
            known = waits_at[where]
            alike = [(status, doing) for status, doing in members if known.kind == "init" or not _may_start(doing)]
            changed |= {status.rank: with_activity(status, with_meaning(doing, known)) for status, doing in alike}
        elif 1 < len(opaque) < len(dumped) <= 2 * len(opaque):
            elsewhere = any(status.state not in (*WAITS, "unseen") and status.where != where for status in statuses)
            asleep = all(status.in_c_code or status.motion.blocked for status in opaque)
            if asleep or ((stands(job) or not job.live) and elsewhere):
                changed |= {status.rank: status._replace(state="waiting") for status in opaque}
    return changed


def with_waits_of_many(job: Job, statuses: Sequence[RankStatus]) -> Sequence[RankStatus]:
    """The same statuses, but samples in C code are waits for the GPU if most ranks, but not all, were at the line.

    A job that makes progress is not paused for native frames, and over NCCL most of its waits look like C code. A rank
    whose GPU draws the power of work does not wait. Jobs of more than :data:`FEW` ranks are left as they are.
    """
    at_line: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for status in statuses if 2 < len(statuses) <= FEW else ():
        for sample in filter(_is_opaque, status.readings):
            at_line[sample.where].append((sample.at, status.rank))

    def as_wait(sample: Activity) -> Activity:
        there = {rank for at, rank in at_line.get(sample.where, ()) if abs(at - sample.at) <= TOGETHER_S}
        most = len(statuses) < 2 * len(there) < 2 * len(statuses) and _is_opaque(sample)
        return sample.taken_as(Meaning.GPU_FULL) if most else sample

    def of_rank(status: RankStatus) -> RankStatus:
        if status.activity is None or (at_line and status.process and draws_work_power(job, status.process)):
            return status
        return status._replace(activity=status.activity._replace(readings=tuple(map(as_wait, status.readings))))

    return [of_rank(status) for status in statuses]


def _is_opaque(doing: Activity) -> bool:
    """Whether Python frames end at a user line that called C code, and do not show what the call waits for.

    Not in a rank that starts: ranks that import a library at one line wait for no rank.
    """
    named = doing.kind in ("code", "sleep") or doing.by_name  # a function's name is no proof of a wait
    open_ended = named and doing.waits in ("nothing", "unknown", "time") and "init" not in doing.context
    return open_ended and not doing.by_frame and bool(doing.where) and not doing.error


def _may_start(doing: Activity) -> bool:
    """Whether C code below a user line is at a socket, as in the start of a communicator."""
    return doing.meaning is Meaning.NETWORK and not (doing.by_frame or doing.native or doing.error)


def to_dump_natively(statuses: Collection[RankStatus]) -> tuple[int, ...]:
    """One rank per point at which Python frames do not show what happens, the largest point first.

    Ranks with torn dumps come before: their stacks change during a read without a pause. In a job that stands still,
    the busy rank is most likely the culprit, and only a dump that pauses the rank can read its stack.
    """
    present = [(status, status.activity) for status in statuses if status.present and status.activity is not None]
    torn = [status.rank for status, doing in present if doing.error == "torn"][:MOST_TORN]
    by_point: dict[tuple[str, ...], list[tuple[int, Activity]]] = defaultdict(list)
    for status, doing in present:
        if not doing.error:
            by_point[doing.place, doing.where, status.load].append((status.rank, doing))
    left_open = (
        point for point in by_point.values() if all(doing.needs_native or _may_start(doing) for _, doing in point)
    )
    stay = filter(None, ([rank for rank, doing in point if not doing.moving] for point in left_open))
    groups = sorted(stay, key=lambda ranks: (-len(ranks), ranks))
    return (*torn, *(ranks[0] for ranks in groups[: MOST - len(torn)]))
