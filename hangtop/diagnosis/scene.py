"""The job as its stacks and processes tell it: where every rank stands, and since when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.job import Job, Node, Rank
from hangtop.diagnosis.motion import Motion, motion
from hangtop.diagnosis.stacks import activity
from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.tables.thresholds import (
    LATE_LOOKS,
    QUIET_SWITCHES_PER_S,
    SILENT_S,
    STILL_SWITCHES_PER_S,
    STOOD_STILL_S,
    UNINTERRUPTIBLE_S,
)

Stance = Literal["waiting", "working", "leaving", "stopped", "uninterruptible", "refused", "gone", "missing", "unseen"]
"""Where a rank stands.

``waiting`` for other ranks; ``working``: anything else in its program, blocked or busy; ``leaving``: shutting down;
``stopped`` (state T or t) and ``uninterruptible`` (state D) over several looks; ``refused``: the one process that could
not be looked into while its neighbours could; ``gone``: seen before, not there now; ``missing``: never seen though
WORLD_SIZE counts it, or on a node that has fallen silent; ``unseen``: alive, but no stack was taken or read.
"""

POLLING = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
"""Settings with which torch polls a collective instead of sleeping in it."""
ODD_STATES = ("T", "t", "D")
SHUT_OUT = ("denied", "timeout", "failed")
"""Errors of a dump that mean that this process resists, when its neighbours do not."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One rank, its process, and what it does."""

    rank: int
    node: str
    stance: Stance
    process: Rank | None = None
    activity: Activity | None = None
    """Over all recent looks."""
    glances: tuple[Activity, ...] = ()
    """One for each look alone, oldest first."""
    motion: Motion = field(default_factory=Motion)
    held: float = 0.0
    """Seconds for which it was seen in this stance, at this place."""
    frozen: bool | None = None
    """Whether it stayed at one point over the looks; None when that cannot be told (it spins, or one look)."""

    @property
    def where(self) -> str:
        """``read_shard (data.py:88)``, or what is known instead."""
        if self.activity is None:
            return ""
        return self.activity.where or self.activity.label

    @property
    def pid(self) -> int | None:
        """Process id on its node."""
        return self.process.process.pid if self.process else None

    @property
    def present(self) -> bool:
        """A process of this rank is there."""
        return self.stance not in ("gone", "missing")


@dataclass(frozen=True, slots=True)
class Scene:
    """The job and where each of its ranks stands."""

    job: Job
    standings: Mapping[int, Standing] = field(default_factory=dict)
    """By rank, including missing ones."""
    segments_per_s: float | None = None
    """TCP segments per second, over all nodes that tell."""

    def of(self, *stances: Stance) -> tuple[Standing, ...]:
        """Ranks in any of these stances, in order."""
        return tuple(standing for standing in self.standings.values() if standing.stance in stances)

    @property
    def dumped(self) -> tuple[Standing, ...]:
        """Ranks whose stacks could be read."""
        return tuple(standing for standing in self.standings.values() if standing.activity and standing.glances)

    @property
    def present(self) -> tuple[Standing, ...]:
        """Ranks that have a process."""
        return tuple(standing for standing in self.standings.values() if standing.present)


def set_scene(job: Job) -> Scene:
    """Read all recent stacks of a job and tell where each rank stands."""
    dumps = _dumps_by_rank(job)
    processes = {rank.rank: rank for rank in sorted(job.ranks, key=lambda rank: (rank.rank, rank.process.started))}
    numbers = set(dumps) | set(processes)
    world = world_size(job)
    if world is not None and job.live and processes:
        numbers |= set(range(world))
    resisting = _resisting(dumps)
    standings = {}
    for number in sorted(numbers):
        node, own = dumps.get(number, ("", []))
        standings[number] = _standing(job, number, node, own, processes.get(number), resists=number in resisting)
    standings |= {standing.rank: standing for standing in _unnamed_crowd(tuple(standings.values()))}
    known = [node.network.segments_per_s for node in job.nodes.values() if node.network.segments_per_s is not None]
    return Scene(job, standings, sum(known) if known else None)


def is_silent(node: Node, now: float) -> bool:
    """True for a node that gives no answer, or gave one before and does no more: what it said last is history."""
    if node.link == "stale":
        return node.seen_at is not None and now - node.seen_at >= SILENT_S
    return node.link == "lost" or (node.link == "connecting" and bool(node.why))


def in_c_code(standing: Standing) -> bool:
    """True for a rank that sleeps in C code which its own program called: a lock, or an operation begun earlier."""
    doing = standing.activity
    return (
        standing.stance == "working"
        and doing is not None
        and doing.kind == "code"
        and doing.waits == "unknown"
        and doing.syscall == "futex"
        and not standing.motion.busy
        and doing.cpu != "busy"
    )


def _unnamed_crowd(standings: tuple[Standing, ...]) -> list[Standing]:
    """Count ranks as waiting that most of the job sits with at one line, in C code that has no frame of its own.

    ``handle.wait()`` and a lock look the same without native frames. One rank there is stuck on something of its own;
    where most are, they wait for an operation that they all began.
    """
    dumped = [standing for standing in standings if standing.activity and standing.glances]
    by_place: dict[str, list[Standing]] = defaultdict(list)
    for standing in dumped:
        if in_c_code(standing) and standing.activity is not None:
            by_place[standing.activity.place].append(standing)
    # all of them there may as well be a step that takes long in C code: only native frames can tell
    crowds = [own for own in by_place.values() if 1 < len(own) < len(dumped) and len(own) * 2 >= len(dumped)]
    return [replace(standing, stance="waiting") for own in crowds for standing in own]


def world_size(job: Job) -> int | None:
    """Ranks that the job should have: what it says itself, else what most of its processes say."""
    if job.world_size is not None:
        return job.world_size
    sizes = [rank.process.world_size for rank in job.ranks if rank.process.world_size]
    return max(sizes, key=lambda size: (sizes.count(size), size)) if sizes else None


def _dumps_by_rank(job: Job) -> dict[int, tuple[str, list[StackDump]]]:
    """Dumps of each rank's newest process and its helpers, with the node; those of earlier processes are history."""
    living = {(rank.node, rank.process.pid): rank.rank for rank in job.ranks}
    known = {**living, **job.stack_ranks}
    newest = {rank.rank: (rank.node, rank.process.pid) for rank in job.ranks}
    found: dict[int, tuple[str, list[StackDump]]] = {}
    by_owner: dict[tuple[str, int], list[StackDump]] = defaultdict(list)
    recent = _since_it_moved(job)
    for node, dump in zip(job.stack_nodes, job.stacks, strict=False):
        if dump.at >= recent:
            by_owner[node, dump.rank_pid].append(dump)
    for owner, dumps in sorted(by_owner.items()):
        rank = known.get(owner)
        if rank is None or newest.get(rank, owner) != owner:
            continue
        ordered = sorted(dumps, key=lambda dump: (dump.at, dump.pid))
        if rank not in found or ordered[-1].at > found[rank][1][-1].at:
            found[rank] = (owner[0], ordered)
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
    read = {number for number, (_, own) in dumps.items() if own[-1].threads}
    shut = {n: own[-1].error.partition(":")[0] for n, (_, own) in dumps.items() if n not in read}
    found = set()
    for number, word in shut.items():
        node = dumps[number][0]
        neighbours = [other for other, (home, _) in dumps.items() if home == node and other != number]
        unlike = sum(other in read for other in neighbours) * 2 > len(neighbours) and bool(neighbours)
        alone = not neighbours and word != "denied" and len(shut) == 1 and len(read) > 1
        if word in SHUT_OUT and (unlike or alone):
            found.add(number)
    return found


def _standing(
    job: Job, number: int, node: str, dumps: list[StackDump], process: Rank | None, *, resists: bool
) -> Standing:
    if process is not None and process.gone_at is not None:
        return Standing(number, process.node, "gone", process, held=max(0.0, job.now - process.gone_at))
    if process is None and not dumps:
        return Standing(number, "", "missing")
    home = job.nodes.get(process.node) if process is not None else None
    if process is not None and home is not None and is_silent(home, job.now):
        return Standing(number, process.node, "missing", process)
    dumps = _untorn(dumps)
    plain = [dump for dump in dumps if dump.method != "native"] or dumps
    doing = _settled(activity(plain), dumps) if dumps else None
    state = process.looks[-1].value.state if process and process.looks else ""
    # sixteen thousand ranks that nobody dumped and that look ordinary need not be summed up every second
    moved = (
        motion(process, doing.since if doing and doing.looks >= LATE_LOOKS else None)
        if doing or state in "TtD"
        else Motion()
    )
    glances = tuple(activity(look) for look in _looks(plain))
    stance = _stance(doing, glances, moved, resists=resists)
    still = _stood_still(job, doing)
    held = max(_held(stance, doing, moved), still) if stance != "unseen" else 0.0
    frozen = _frozen(stance, doing, glances, moved, polls=_polls(process))
    if frozen is None and still >= job.patience:
        frozen = True
    return Standing(number, process.node if process else node, stance, process, doing, glances, moved, held, frozen)


def _untorn(dumps: list[StackDump]) -> list[StackDump]:
    """Leave out torn reads of a process that other looks could read: a busy interpreter changes under the eye."""
    whole = [dump for dump in dumps if not dump.error.startswith("torn")]
    return whole if any(dump.threads for dump in whole) else dumps


def _settled(doing: Activity, dumps: list[StackDump]) -> Activity:
    """Take the meaning from a look with native frames at the same place; time and movement from the others.

    Native frames change the folded place of a rank that has not moved, so they must not count as a look of their own.
    """
    native = [dump for dump in dumps if dump.method == "native"]
    if not native or len(native) == len(dumps):
        return doing
    told = activity(native)
    if told.error or told.kind == "unknown" or told.where != doing.where:
        return doing
    return replace(
        doing, kind=told.kind, op=told.op, label=told.label, waits=told.waits, context=doing.context | told.context,
        decided_by=told.decided_by, holder=told.holder or doing.holder, frames=told.frames, native_would_tell=False,
    )  # fmt: skip


def _polls(process: Rank | None) -> bool:
    env = process.process.env if process else {}
    return any(env.get(name, "0") not in ("", "0") for name in POLLING)


def _looks(dumps: list[StackDump]) -> list[list[StackDump]]:
    """Split a rank's dumps into looks: each begins with a dump of the rank itself, its helpers' follow."""
    looks: list[list[StackDump]] = []
    for dump in dumps:
        if dump.pid == dump.rank_pid or not looks:
            looks.append([])
        looks[-1].append(dump)
    return looks


def _stance(doing: Activity | None, glances: tuple[Activity, ...], moved: Motion, *, resists: bool) -> Stance:
    state = moved.state or (doing.state if doing else "")
    if state in ("T", "t") and _persists(state, glances, moved, 0.0):
        return "stopped"
    if state == "D" and _persists(state, glances, moved, UNINTERRUPTIBLE_S):
        return "uninterruptible"
    if doing is None:
        return "unseen"
    if doing.error:
        if doing.error == "stopped":
            return "stopped"
        if doing.error == "gone":
            return "gone"
        return "refused" if resists else "unseen"
    if doing.kind == "shutdown" and all(glance.kind == "shutdown" for glance in glances[-LATE_LOOKS:]):
        return "leaving"
    return "waiting" if waits_for_others(doing, moved) else "working"


def waits_for_others(doing: Activity, moved: Motion | None = None) -> bool:
    """True when it waits for other ranks, as far as one can tell.

    Inside ``backward`` or a wrapper's ``forward`` a rank that uses no CPU waits: gloo and the reducer block there in
    C++. A rank that waits for its own GPU counts as waiting too: its kernels may be NCCL's.
    """
    if doing.waits == "peers":
        return True
    if doing.kind == "device":
        return True
    if doing.waits == "unknown" and doing.kind in ("backward", "forward"):
        asleep = doing.cpu == "unknown" and doing.state == "S" and (moved is None or moved.cpu is None)
        return doing.cpu == "blocked" or bool(moved and moved.blocked) or asleep
    return False


def _persists(state: str, glances: tuple[Activity, ...], moved: Motion, least: float) -> bool:
    """A process state counts once every one of several looks showed it, over ``least`` seconds."""
    if moved.state == state and moved.span > 0:
        return moved.state_for >= least and moved.state_for > 0 and (moved.switches or 0.0) <= STILL_SWITCHES_PER_S
    states = [glance.state for glance in glances]
    long_enough = len(glances) >= LATE_LOOKS and glances[-1].at - glances[0].at >= least
    return long_enough and set(states[-LATE_LOOKS:]) == {state}


def _held(stance: Stance, doing: Activity | None, moved: Motion) -> float:
    if stance in ("stopped", "uninterruptible"):
        return moved.state_for
    if doing is None:
        return 0.0
    return max(0.0, doing.at - doing.since) if doing.looks >= LATE_LOOKS else 0.0


def _stood_still(job: Job, doing: Activity | None) -> float:
    """Seconds since the job last moved, when this dump was taken in that time: then it shows the whole of it."""
    if doing is None or job.stood_still is None or not job.live:
        return 0.0
    return job.stood_still if job.now - doing.at <= job.stood_still else 0.0


def _frozen(
    stance: Stance, doing: Activity | None, glances: tuple[Activity, ...], moved: Motion, *, polls: bool
) -> bool | None:
    """Tell whether a rank stood at one point over the looks.

    A wait on the CPU that lasts causes no switch at all: switches of the main thread mean that one wait ended and the
    next began, however alike the looks are; unless the library was told to poll. A rank that spins cannot be told.
    """
    if doing is None or len(glances) < LATE_LOOKS:
        return None
    if doing.moving:
        return False
    if moved.cpu is None or moved.switches is None:
        return True if doing.cpu == "blocked" else None
    switched = moved.switches * moved.span > max(1.0, QUIET_SWITCHES_PER_S * moved.span)
    if stance == "waiting" and switched and not polls:
        return False
    return True if moved.blocked and not switched else None
