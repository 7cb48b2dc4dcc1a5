"""The job as its stacks and processes tell it: where every rank stands, and since when."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.evidence.gpu_load import lately
from hangtop.diagnosis.job import Job, Node, Rank
from hangtop.diagnosis.roster import world_size
from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.stacks.torn import not_in_time
from hangtop.diagnosis.tables.thresholds import LATE_LOOKS, SILENT_S, STOOD_STILL_S
from hangtop.diagnosis.waits.bystanders import only_listed
from hangtop.diagnosis.waits.held import stood_still
from hangtop.diagnosis.waits.native_frames import told_at_same_point, told_by_gpu
from hangtop.diagnosis.waits.patience import seen_after
from hangtop.diagnosis.waits.peers import told_by_connections
from hangtop.diagnosis.waits.process_motion import told_to_poll, wakes
from hangtop.diagnosis.waits.rank_status import (
    RankStatus,
    State,
    frozen,
    in_c_code,
    in_c_code_beside,
    status_of,
)
from hangtop.diagnosis.yielding import give_way

WAITS: tuple[State, ...] = ("waiting", "on_gpu")
"""States of ranks that wait for something which is not their own to do."""
SHUT_OUT = ("denied", "timeout", "failed")
"""Errors of a dump that mean that this process resists, when its neighbours do not."""
FEW = 256
"""Ranks whose past is read to tell whether they stood still. Where more wait, it is read of about as many, spread
evenly: the past is kept packed, and to unpack that of 16,384 ranks takes longer than all the rest of a verdict."""
ENOUGH = 8
"""Of ranks that wait at one place, so many must have been read, and agree, to speak for the others there."""
STOPPED_WITHIN_S, STOPPED_WITHIN_SHARE = 2.0, 0.2
"""Seconds, and share of its standing still, by which it is not known when exactly a job stopped: a look in that time
may have met a rank on its way, and does not count beside one that came later."""
Company = tuple[object, ...]
"""What ranks have in common that wait for the same, in the same way."""


def statuses_of(job: Job) -> Mapping[int, RankStatus]:
    """Read all recent stacks of a job and tell what each rank does: by rank, including missing ones."""
    dumps = _dumps_by_rank(job)
    processes = {rank.rank: rank for rank in sorted(job.ranks, key=lambda rank: (rank.rank, rank.process.started))}
    numbers = set(dumps) | set(processes)
    world = world_size(job)
    if world is not None and job.live and processes and not job.unnumbered:  # any of these may be one that is missing
        numbers |= set(range(world))
    resisting = _resisting(dumps)
    loads = lately(job)
    statuses = {}
    for number in sorted(numbers):
        give_way()
        node, own = dumps.get(number, ("", []))
        process = processes.get(number)
        statuses[number] = _absent(job, number, own, process) or status_of(
            job, number, node, own, process, resists=number in resisting, load=loads.get(number, "unknown")
        )
    statuses |= told_at_same_point(job, statuses.values())
    statuses |= told_by_gpu(job, statuses.values())
    statuses |= told_by_connections(job, statuses.values(), dumps)
    looked_at = [one for one in statuses.values() if one.present and (one.activity or job.patience <= 0)]
    statuses |= _frozen(job, looked_at, steps=not _someone_stays(statuses.values()))
    statuses |= _at_one_place(job, tuple(statuses.values()))
    if only_listed(statuses.values()):
        statuses = {}
    return statuses


def not_responding(node: Node, now: float) -> bool:
    """True for a node that gives no answer, or gave one before and does no more: what it said last is history."""
    if node.link == "stale":
        return node.seen_at is not None and now - node.seen_at >= SILENT_S
    return node.link == "lost" or (node.link == "connecting" and bool(node.why))


def _frozen(job: Job, statuses: list[RankStatus], *, steps: bool = True) -> dict[int, RankStatus]:
    """Tell of each whether it stood still. ``steps``: where those who wait wake, that may be the job's steps.

    Ranks that wait at one place wait for one another: where those that were read agree, so do the others.
    """
    apart = len(statuses) // FEW | 1
    told: dict[Company, list[bool | None]] = defaultdict(list)
    made, others = {}, []
    for place, status in enumerate(statuses):
        waits = status.state in WAITS and status.read
        if place % apart and waits:
            others.append(status)
            continue
        answer = frozen(status)
        if apart > 1 and waits:
            told[_company(status)].append(answer)
        made[status.rank] = _lasting(job, status, answer, steps=steps)
    agreed = {key: told_[0] for key, told_ in told.items() if len(told_) >= ENOUGH and len(set(told_)) == 1}
    for status in others:
        key = _company(status)
        answer = agreed[key] if key in agreed else frozen(status)
        made[status.rank] = _lasting(job, status, answer, steps=steps)
    return made


def _company(status: RankStatus) -> Company:
    doing = status.activity
    assert doing is not None, "nobody waits who was not looked at"
    several = len(status.readings) >= LATE_LOOKS
    return doing.place, doing.kind, doing.op, doing.cpu, doing.moving, several, told_to_poll(status.process)


def _lasting(job: Job, status: RankStatus, answer: bool | None, *, steps: bool) -> RankStatus:
    """What cannot be told by its looks alone is told by the job, once that stood still for long enough.

    A rank that spins looks the same whether its wait ends or not; so do sleeps of a fifth of a second in a loop. Where
    the job moved by no sign at all while a rank was looked at, and every look showed the same, it stood still.
    """
    told = answer is not None and not _main_is_elsewhere(status) and (steps or not _only_wakes(status))
    long_still = not told and stood_still(job, status.activity) >= seen_after(job.patience)
    return status._replace(frozen=True if long_still or _alike_while(job, status) else answer)


def _main_is_elsewhere(status: RankStatus) -> bool:
    """Another thread does the rank's work: how often the main one wakes, in an actor's loop, says nothing about it."""
    doing = status.activity
    return doing is not None and doing.thread != "main" and not doing.moving and status.motion.blocked


def _only_wakes(status: RankStatus) -> bool:
    """All that moved is how often its main thread woke, which used no CPU: a wait that polls does that, too.

    JAX looks five times a second whether it was interrupted.
    """
    doing = status.activity
    return doing is not None and status.state in WAITS and not doing.moving and status.motion.blocked


def _someone_stays(statuses: Iterable[RankStatus]) -> bool:
    """Somebody does not wait, and none of those wakes now and then: in steps, a slow rank wakes as the others do."""
    others = [one for one in statuses if one.state not in (*WAITS, "unseen")]
    return bool(others) and not any(wakes(one.motion) for one in others)


def _alike_while(job: Job, status: RankStatus) -> bool:
    """Its looks span seconds, all were alike, and in these seconds the job moved by no sign at all."""
    doing = status.activity
    if doing is None or doing.error or doing.moving or not job.live:
        return False
    if job.motion.moving or status.load == "computing":
        return False
    span = doing.at - doing.since
    return span >= STOOD_STILL_S and (job.stood_still or 0.0) >= max(span, job.usual_pause or 0.0)


def _at_one_place(job: Job, statuses: tuple[RankStatus, ...]) -> dict[int, RankStatus]:
    """Count ranks as waiting that most of the job sits with at one line, in a call of C that has no frame of its own.

    ``handle.wait()``, a lock and a wait for the GPU look the same without native frames. A rank that sleeps there
    sleeps in C code: one alone is stuck on something of its own; most of the job waits for an operation that all
    began. In a job that stands still they are in one place whether the kernel says that they sleep, spin or nap
    between two polls, if another rank is at a place of its own: three ranks in ``synchronize()``, one of them in
    ``nanosleep`` inside of it, wait with each other for the rank that is in ``tune_kernels``.
    """
    dumped = [status for status in statuses if status.activity and status.readings]
    asleep: dict[str, list[RankStatus]] = defaultdict(list)
    alike: dict[str, list[RankStatus]] = defaultdict(list)
    for status in dumped:
        assert status.activity is not None
        if in_c_code(status) or in_c_code_beside(status):
            asleep[status.activity.place].append(status)
        if status.state == "working" and status.where and not status.activity.moving and _opaque(status.activity):
            alike[status.where].append(status)
    # all of them there may as well be a step that takes long in C code: only native frames can tell
    waiting = [
        one for own in asleep.values() if 1 < len(own) < len(dumped) and 2 * len(own) >= len(dumped) for one in own
    ]
    if not job.live or (job.stood_still or 0.0) >= STOOD_STILL_S:
        for where, own in alike.items():
            others = [one for one in statuses if one.state not in (*WAITS, "unseen") and one.where != where]
            if len(own) > 1 and 2 * len(own) >= len(dumped) and others and not any(map(_computes_on_gpu, own)):
                waiting += own
    return {status.rank: status._replace(state="waiting") for status in waiting}


def _opaque(doing: Activity) -> bool:
    """Python frames end at a line of the user's that called C code, and do not tell what that waits for."""
    return (
        doing.kind in ("code", "sleep") and doing.decided_by is None and doing.waits in ("nothing", "unknown", "time")
    )


def _computes_on_gpu(status: RankStatus) -> bool:
    return status.load == "computing"


def _dumps_by_rank(job: Job) -> dict[int, tuple[str, list[StackDump]]]:
    """Dumps of each rank's newest process and its helpers, with the node; those of earlier processes are history."""
    if not job.stacks:
        return {}
    living = {(rank.node, rank.process.pid): rank.rank for rank in job.ranks}
    known = {**living, **job.stack_ranks}
    newest = {rank.rank: (rank.node, rank.process.pid) for rank in job.ranks}
    found: dict[int, tuple[str, list[StackDump]]] = {}
    by_owner: dict[tuple[str, int], list[StackDump]] = defaultdict(list)
    recent = _since_it_moved(job)
    settled = recent + min(STOPPED_WITHIN_S, STOPPED_WITHIN_SHARE * (job.stood_still or 0.0))
    for node, dump in zip(job.stack_nodes, job.stacks, strict=False):
        if dump.at >= recent:
            by_owner[node, dump.rank_pid].append(dump)
    owners: dict[int, tuple[str, int]] = {}
    for owner, all_dumps in by_owner.items():
        rank = known.get(owner)
        if rank is None or newest.get(rank, owner) != owner:
            continue
        all_dumps.sort(key=lambda dump: (dump.at, dump.pid))
        late = [dump for dump in all_dumps if dump.at >= settled]
        dumps = late if any(dump.pid == dump.rank_pid for dump in late) else all_dumps
        if rank in found and (-found[rank][1][-1].at, owners[rank]) < (-dumps[-1].at, owner):
            continue  # of several processes that were this rank, the one that was seen last
        found[rank], owners[rank] = (owner[0], dumps), owner
    return found


def _since_it_moved(job: Job) -> float:
    """From when on looks count: once a job stands still, what it did before says nothing about where it stands."""
    if not job.live or not job.stood_still or job.stood_still < STOOD_STILL_S:
        return float("-inf")
    moved_at = job.now - job.stood_still
    return moved_at if any(dump.at >= moved_at for dump in job.stacks) else float("-inf")


def _resisting(dumps: Mapping[int, tuple[str, list[StackDump]]]) -> set[int]:
    """Ranks that could not be looked into though their neighbours could.

    Neighbours are the ranks of the same node. A rank that is alone there counts only for an error that is no question
    of rights, and only where every other rank of the job could be read.
    """
    homes = Counter(home for home, _ in dumps.values())
    read = Counter(home for home, own in dumps.values() if own[-1].threads)
    newest = {number: own[-1] for number, (_, own) in dumps.items() if not not_in_time(own[-1])}
    shut = {n: look.error.partition(":")[0] for n, look in newest.items() if not look.threads}
    found = set()
    for number, word in shut.items():
        home = dumps[number][0]
        neighbours = homes[home] - 1
        unlike = read[home] * 2 > neighbours > 0
        alone = not neighbours and word != "denied" and len(shut) == 1 and read.total() > 1
        if word in SHUT_OUT and (unlike or alone):
            found.add(number)
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
