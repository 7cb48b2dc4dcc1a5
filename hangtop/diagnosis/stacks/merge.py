"""Stacks of many ranks in one picture: groups of ranks at one point, and the same as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.phrasing import folded as folded_ranks
from hangtop.diagnosis.phrasing import of_several
from hangtop.diagnosis.stacks.activity import activity
from hangtop.diagnosis.stacks.states import Activity


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
    """Smallest first; of equal size, ranks that do not wait for other ranks first, then lowest rank first."""
    activities: Mapping[int, Activity]
    """By rank."""
    at: float
    """Time of the newest dump; 0 when there is none."""

    @property
    def looks(self) -> int:
        """Most looks that any rank has."""
        return max((doing.looks for doing in self.activities.values()), default=0)


def merge(entries: Iterable[tuple[int, StackDump]]) -> Merged:
    """Merge (global rank, dump): the ranks' own dumps and their helpers', any number of looks."""
    by_rank: dict[int, list[StackDump]] = defaultdict(list)
    for rank, dump in entries:
        by_rank[rank].append(dump)
    activities = {rank: activity(dumps) for rank, dumps in sorted(by_rank.items())}
    at = max((dump.at for dumps in by_rank.values() for dump in dumps), default=0.0)
    return Merged(_groups(activities), activities, at)


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
        members.values(), key=lambda ranks: (len(ranks), activities[min(ranks)].waits == "peers", min(ranks))
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


def summary(group: StackGroup) -> str:
    """One line on a group: ``3 ranks 4-6: wait in all_reduce, at train_step (train.py:31)``."""
    count = len(group.ranks)
    ranks = f"rank {group.folded}" if count == 1 else f"{count:,} ranks {group.folded}"
    doing, label = group.activity, of_several(group.activity.label, count)
    if doing.error:
        state = f", state {doing.state}" if doing.state else ""
        kernel = f" in {doing.wchan}" if doing.wchan else ""
        return f"{ranks}: {label}: {doing.error}{state}{kernel} ({doing.said})"
    where = f", at {doing.where}" if doing.where else ""
    motion = {True: ", moving", False: ", frozen", None: ""}[doing.moving]
    cpu = f", {doing.cpu}" if doing.cpu in ("busy", "blocked") else ""
    on = f" ({doing.waiting_on})" if doing.waits == "storage" and doing.waiting_on else ""
    return f"{ranks}: {label}{on}{where}{motion}{cpu}"


def as_text(merged: Merged) -> str:
    """Groups with their stacks, smallest first, innermost frame first; ``>`` marks what the largest does not share."""
    blocks = []
    for group in merged.groups:
        lines = [f"  {'>' if line.differs else ' '} {line.text}" for line in group.lines]
        blocks.append("\n".join([summary(group), *lines]))
    return "\n\n".join(blocks) + "\n" if blocks else ""
