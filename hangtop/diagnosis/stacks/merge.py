"""Many ranks' stacks in one picture: groups that do the same, smallest first, and prefix trees by role of thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.phrasing import folded as folded_ranks
from hangtop.diagnosis.stacks.activity import activity, look_at
from hangtop.diagnosis.stacks.parsed import folded, parse
from hangtop.diagnosis.stacks.states import Activity, Role
from hangtop.diagnosis.stacks.threads import main_thread, role
from hangtop.diagnosis.stacks.tree import TreeNode, grow


@dataclass(frozen=True, slots=True)
class StackLine:
    """One line of a group's stack. ``differs``: further in than the largest group shares."""

    text: str
    differs: bool


@dataclass(frozen=True, slots=True)
class StackGroup:
    """Ranks that are at the same point of the program."""

    ranks: frozenset[int]
    activity: Activity
    """Of the lowest rank, which represents them."""
    lines: tuple[StackLine, ...]
    """Its frames, innermost first; empty where there are none and ``activity.error`` says why."""

    @property
    def folded(self) -> str:
        """The ranks as people write them: ``0-36,38-63``."""
        return folded_ranks(self.ranks)


@dataclass(frozen=True, slots=True)
class Merged:
    """All that was dumped, in one picture."""

    groups: tuple[StackGroup, ...]
    """Smallest first; of equal size, those who do not wait for other ranks first, then lowest rank first."""
    trees: Mapping[Role, TreeNode]
    """Main threads (with the autograd threads that they wait for), data workers, and Python's other threads."""
    activities: Mapping[int, Activity]
    """By rank."""
    looks: int
    """Most looks that any rank has."""
    at: float
    """Time of the newest dump; 0 when there is none."""


def merge(entries: Iterable[tuple[int, StackDump]], sample: int | None = None) -> Merged:
    """Merge (global rank, dump): the ranks' own dumps and their helpers', any number of looks.

    ``sample`` takes one look of each rank alone (0 is the oldest; a rank with fewer gives its newest), None all:
    then ranks that moved are told from those that stood still.
    """
    by_rank: dict[int, list[StackDump]] = defaultdict(list)
    for rank, dump in entries:
        by_rank[rank].append(dump)
    looks = max((len(_own(dumps)) for dumps in by_rank.values()), default=0)
    chosen = {rank: _sample(dumps, sample) for rank, dumps in sorted(by_rank.items())}
    activities = {rank: activity(dumps) for rank, dumps in chosen.items()}
    return Merged(
        _groups(activities),
        _trees(chosen),
        activities,
        looks,
        max((dump.at for dumps in chosen.values() for dump in dumps), default=0.0),
    )


def _own(dumps: Sequence[StackDump]) -> list[StackDump]:
    return sorted((dump for dump in dumps if dump.pid == dump.rank_pid), key=lambda dump: dump.at)


def _sample(dumps: Sequence[StackDump], sample: int | None) -> list[StackDump]:
    """Dumps of one look: the rank's own and its helpers' of nearest time."""
    own = _own(dumps)
    if sample is None or not own:
        return list(dumps)
    picked = own[min(sample, len(own) - 1)]
    helpers: dict[int, StackDump] = {}
    for dump in dumps:
        if dump.pid == picked.pid:
            continue
        known = helpers.get(dump.pid)
        if known is None or abs(dump.at - picked.at) < abs(known.at - picked.at):
            helpers[dump.pid] = dump
    return [picked, *helpers.values()]


def _key(doing: Activity) -> tuple[str, ...]:
    """What ranks of a group have in common. One that moves is known by the innermost frame that it does not leave."""
    if doing.error:
        return ("no frames", doing.error, doing.state, doing.wchan)
    if doing.moving:
        stays = doing.frame
        return ("moves", doing.kind, stays.name if stays else "", stays.file if stays else "")
    return ("stands", doing.kind, doing.place)


def _groups(activities: Mapping[int, Activity]) -> tuple[StackGroup, ...]:
    members: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for rank, doing in activities.items():
        members[_key(doing)].append(rank)
    # of two groups of one size, those who wait for others are the crowd
    ordered = sorted(
        members.values(), key=lambda ranks: (len(ranks), activities[min(ranks)].waits_for_peers, min(ranks))
    )
    if not ordered:
        return ()
    crowd = activities[min(ordered[-1])].frames
    return tuple(
        StackGroup(frozenset(ranks), activities[min(ranks)], _lines(activities[min(ranks)].frames, crowd))
        for ranks in ordered
    )


def _lines(frames: Sequence[str], crowd: Sequence[str]) -> tuple[StackLine, ...]:
    shared = 0
    for mine, theirs in zip(frames, crowd, strict=False):
        if mine != theirs:
            break
        shared += 1
    lines = [StackLine(text, index >= shared) for index, text in enumerate(frames)]
    return tuple(reversed(lines))


def _trees(chosen: Mapping[int, Sequence[StackDump]]) -> dict[Role, TreeNode]:
    stacks: dict[Role, list[tuple[int, tuple[str, ...]]]] = defaultdict(list)
    for rank, dumps in chosen.items():
        for dump in dumps:
            main = main_thread(dump)
            seen = look_at(dump)
            if seen is not None:
                stacks["main" if dump.pid == dump.rank_pid else "data_worker"].append((rank, folded(seen.stack)))
            for thread in dump.threads:
                if thread is not main and dump.pid == dump.rank_pid:
                    lines = folded(parse(thread.frames, main=False))
                    if lines:
                        stacks[role(thread, dump)].append((rank, lines))
    return {name: grow(found) for name, found in stacks.items()}
