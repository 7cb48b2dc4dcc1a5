"""Merge the stacks of many ranks into groups of ranks at one point, also as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import NamedTuple

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.phrasing import folded, of_several
from hangtop.diagnosis.stacks.activity import activity
from hangtop.diagnosis.stacks.states import Activity


class StackLine(NamedTuple):
    """One line of a group's stack. ``differs``: the largest group does not share the line."""

    text: str
    differs: bool


class StackGroup(NamedTuple):
    """Ranks that are at the same point of the program."""

    ranks: frozenset[int]
    activity: Activity
    """Activity of the lowest rank, which stands for the group."""
    lines: tuple[StackLine, ...]
    """Frames of the lowest rank, innermost first; empty without frames: ``activity.error`` is the reason."""

    @property
    def folded(self) -> str:
        """The ranks as text: ``0-36,38-63``."""
        return folded(self.ranks)


class Merged(NamedTuple):
    """All dumps, merged."""

    groups: tuple[StackGroup, ...]
    """Smallest first; of equal size, ranks that do not wait for other ranks first, then lowest rank first."""
    activities: Mapping[int, Activity]
    """By rank."""

    @property
    def at(self) -> float:
        """Time of the newest dump; 0 when there is none."""
        return max((doing.at for doing in self.activities.values()), default=0.0)

    @property
    def samples(self) -> int:
        """Largest number of samples of one rank."""
        return max((len(doing.readings) for doing in self.activities.values()), default=0)


def merge(entries: Iterable[tuple[int, StackDump]]) -> Merged:
    """Merge pairs of (global rank, dump) of ranks and their helpers, with any number of samples."""
    by_rank: dict[int, list[StackDump]] = defaultdict(list)
    for rank, dump in entries:
        by_rank[rank].append(dump)
    activities = {rank: activity(dumps) for rank, dumps in sorted(by_rank.items())}
    members: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for rank, doing in activities.items():
        members[_key(doing)].append(rank)
    parties = sorted(members.values(), key=lambda ranks: (len(ranks), activities[ranks[0]].waits == "peers", ranks[0]))
    crowd = activities[parties[-1][0]].frames if parties else ()
    groups = []
    for ranks in parties:
        doing = activities[ranks[0]]
        shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(doing.frames, crowd, strict=False))))
        lines = [StackLine(text, place >= shared) for place, text in enumerate(doing.frames)]
        groups.append(StackGroup(frozenset(ranks), doing, tuple(reversed(lines))))
    return Merged(tuple(groups), activities)


def _key(doing: Activity) -> tuple[str, ...]:
    """Key of the group of a rank: its place if the rank stands still, its innermost user function if it moves."""
    if doing.error:
        return ("no frames", doing.error, doing.state, doing.wchan)
    if doing.moving:
        return ("moves", doing.kind, doing.function)
    return ("stands", doing.kind, doing.place)


def summary(group: StackGroup) -> str:
    """One line on a group: ``3 ranks 4-6: wait in all_reduce, at train_step (train.py:31)``."""
    count = len(group.ranks)
    ranks = f"rank {group.folded}" if count == 1 else f"{count:,} ranks {group.folded}"
    doing, label = group.activity, of_several(group.activity.label, count)
    if doing.error:
        state = f", state {doing.state}" if doing.state else ""
        kernel = f" in {doing.wchan}" if doing.wchan else ""
        return f"{ranks}: {label}: {doing.error}{state}{kernel} ({doing.detail})"
    on = f" ({doing.waiting_on})" if doing.waits == "storage" and doing.waiting_on else ""
    where = f", at {doing.where}" if doing.where else ""
    motion = {True: ", moving", False: ", frozen", None: ""}[doing.moving]
    cpu = "" if doing.cpu is None else f", {doing.cpu:.1f} cores busy"
    return f"{ranks}: {label}{on}{where}{motion}{cpu}"


def as_text(merged: Merged) -> str:
    """Groups with stacks, smallest first, innermost frame first; ``>``: the largest group does not share the line."""
    blocks = []
    for group in merged.groups:
        lines = [f"  {'>' if line.differs else ' '} {line.text}" for line in group.lines]
        blocks.append("\n".join([summary(group), *lines]))
    return "\n\n".join(blocks) + "\n" if blocks else ""
