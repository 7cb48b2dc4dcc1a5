"""The job as its stacks and processes tell it: where every rank stands, and since when."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.job import Job, Node, Rank
from hangtop.diagnosis.standing import Stance, Standing, frozen, in_c_code, polls, standing_of, stood_still
from hangtop.diagnosis.tables.thresholds import LATE_LOOKS, SILENT_S, STOOD_STILL_S

SHUT_OUT = ("denied", "timeout", "failed")
"""Errors of a dump that mean that this process resists, when its neighbours do not."""
FEW = 256
"""Ranks whose past is read to tell whether they stood still. Where more wait, it is read of about as many, spread
evenly: the past is kept packed, and to unpack that of 16,384 ranks takes longer than all the rest of a verdict."""
ENOUGH = 8
"""Of ranks that wait at one place, so many must have been read, and agree, to speak for the others there."""
Crowd = tuple[object, ...]
"""What ranks have in common that wait for the same, in the same way."""


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
    standings, looked_at = {}, []
    for number in sorted(numbers):
        node, own = dumps.get(number, ("", []))
        process = processes.get(number)
        standing = _absent(job, number, own, process)
        if standing is None:
            standing = standing_of(job, number, node, own, process, resists=number in resisting)
            if standing.activity or job.patience <= 0:
                looked_at.append(standing)
        standings[number] = standing
    standings |= _frozen(job, looked_at)
    standings |= _unnamed_crowd(tuple(standings.values()))
    known = [node.network.segments_per_s for node in job.nodes.values() if node.network.segments_per_s is not None]
    return Scene(job, standings, sum(known) if known else None)


def is_silent(node: Node, now: float) -> bool:
    """True for a node that gives no answer, or gave one before and does no more: what it said last is history."""
    if node.link == "stale":
        return node.seen_at is not None and now - node.seen_at >= SILENT_S
    return node.link == "lost" or (node.link == "connecting" and bool(node.why))


def _frozen(job: Job, standings: list[Standing]) -> dict[int, Standing]:
    """Tell of each whether it stood still.

    Ranks that wait at one place wait for one another: where those that were read agree, so do the others.
    """
    apart = len(standings) // FEW | 1
    told: dict[Crowd, list[bool | None]] = defaultdict(list)
    made, others = {}, []
    for place, standing in enumerate(standings):
        if place % apart and standing.stance == "waiting":
            others.append(standing)
            continue
        answer = frozen(standing)
        if apart > 1 and standing.stance == "waiting":
            told[_crowd(standing)].append(answer)
        made[standing.rank] = _lasting(job, standing, answer)
    agreed = {key: told_[0] for key, told_ in told.items() if len(told_) >= ENOUGH and len(set(told_)) == 1}
    for standing in others:
        key = _crowd(standing)
        made[standing.rank] = _lasting(job, standing, agreed[key] if key in agreed else frozen(standing))
    return made


def _crowd(standing: Standing) -> Crowd:
    doing = standing.activity
    assert doing is not None, "nobody waits who was not looked at"
    several = len(standing.glances) >= LATE_LOOKS
    return doing.place, doing.kind, doing.op, doing.cpu, doing.moving, several, polls(standing.process)


def _lasting(job: Job, standing: Standing, answer: bool | None) -> Standing:
    """What cannot be told by its looks alone is told by the job, once that stood still for long enough."""
    if answer is None and stood_still(job, standing.activity) >= job.patience:
        answer = True
    return standing._replace(frozen=answer)


def _unnamed_crowd(standings: tuple[Standing, ...]) -> dict[int, Standing]:
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
    return {standing.rank: standing._replace(stance="waiting") for own in crowds for standing in own}


def world_size(job: Job) -> int | None:
    """Ranks that the job should have: what it says itself, else what most of its processes say."""
    if job.world_size is not None:
        return job.world_size
    sizes = Counter(rank.process.world_size for rank in job.ranks if rank.process.world_size)
    return max(sizes, key=lambda size: (sizes[size], size), default=None)


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
    owners: dict[int, tuple[str, int]] = {}
    for owner, dumps in by_owner.items():
        rank = known.get(owner)
        if rank is None or newest.get(rank, owner) != owner:
            continue
        dumps.sort(key=lambda dump: (dump.at, dump.pid))
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
    shut = {n: own[-1].error.partition(":")[0] for n, (_, own) in dumps.items() if not own[-1].threads}
    found = set()
    for number, word in shut.items():
        home = dumps[number][0]
        neighbours = homes[home] - 1
        unlike = read[home] * 2 > neighbours > 0
        alone = not neighbours and word != "denied" and len(shut) == 1 and read.total() > 1
        if word in SHUT_OUT and (unlike or alone):
            found.add(number)
    return found


def _absent(job: Job, number: int, dumps: list[StackDump], process: Rank | None) -> Standing | None:
    """A rank that is not there; None for one that is, or of which there are dumps at least."""
    if process is None:
        return None if dumps else Standing(number, "", "missing")
    if process.gone_at is not None:
        return Standing(number, process.node, "gone", process, held=max(0.0, job.now - process.gone_at))
    home = job.nodes.get(process.node)
    if home is not None and is_silent(home, job.now):
        return Standing(number, process.node, "missing", process)
    return None
