"""Stacks of many ranks in one picture: groups at one point, prefix trees by role of thread, and as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.phrasing import folded as folded_ranks
from hangtop.diagnosis.phrasing import of_several
from hangtop.diagnosis.stacks.activity import activity, look_at
from hangtop.diagnosis.stacks.parsed import folded, parse
from hangtop.diagnosis.stacks.states import Activity, Role
from hangtop.diagnosis.stacks.threads import main_thread, role


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A run of frames that the same ranks share, and what branches off inside of it.

    ``frames`` are outermost first and never empty but in the root. ``looks`` counts the stacks that came through here:
    more than ranks when each was looked at several times, so a rank that was here once of five looks counts one.
    """

    frames: tuple[str, ...]
    ranks: frozenset[int]
    looks: int
    children: tuple[TreeNode, ...] = ()

    @property
    def folded(self) -> str:
        """The ranks as people write them: ``0-36,38-63``."""
        return folded_ranks(self.ranks)

    def walk(self, depth: int = 0) -> Iterator[tuple[int, TreeNode]]:
        """This node and all below it with their depths, in the order of drawing."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


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


@dataclass(slots=True)
class _Branch:
    """A node while it grows: one frame."""

    ranks: set[int] = field(default_factory=set)
    looks: int = 0
    ends: int = 0
    branches: dict[str, _Branch] = field(default_factory=dict)


def grow(stacks: Iterable[tuple[int, tuple[str, ...]]]) -> TreeNode:
    """Merge (rank, folded frames outermost first) into one tree; the root has no frames and all ranks."""
    root = _Branch()
    for rank, frames in stacks:
        branch = root
        branch.ranks.add(rank)
        branch.looks += 1
        for frame in frames:
            branch = branch.branches.setdefault(frame, _Branch())
            branch.ranks.add(rank)
            branch.looks += 1
        branch.ends += 1
    return TreeNode((), frozenset(root.ranks), root.looks, _children(root))


def _children(branch: _Branch) -> tuple[TreeNode, ...]:
    """Fewest ranks first: the odd ones out are what one looks for."""
    nodes = [_node(frame, child) for frame, child in branch.branches.items()]
    return tuple(sorted(nodes, key=lambda node: (len(node.ranks), min(node.ranks), node.frames)))


def _node(frame: str, branch: _Branch) -> TreeNode:
    frames = [frame]
    ranks, looks = branch.ranks, branch.looks
    while len(branch.branches) == 1 and not branch.ends:
        inner, branch = next(iter(branch.branches.items()))
        frames.append(inner)
    return TreeNode(tuple(frames), frozenset(ranks), looks, _children(branch))


def summary(group: StackGroup) -> str:
    """One line on a group: ``3 ranks 4-6: wait in all_reduce, at train_step (train.py:31)``."""
    count = len(group.ranks)
    ranks = f"rank {group.folded}" if count == 1 else f"{count:,} ranks {group.folded}"
    return f"{ranks}: {describe(group.activity, count)}"


def describe(doing: Activity, number: int = 1) -> str:
    """One line on what so many ranks do, with place, motion and CPU as far as they are known."""
    label = of_several(doing.label, number)
    if doing.error:
        state = f", state {doing.state}" if doing.state else ""
        kernel = f" in {doing.wchan}" if doing.wchan else ""
        return f"{label}: {doing.error}{state}{kernel} ({doing.said})"
    where = f", at {doing.where}" if doing.where else ""
    motion = {True: ", moving", False: ", frozen", None: ""}[doing.moving]
    cpu = f", {doing.cpu}" if doing.cpu in ("busy", "blocked") else ""
    held = f"; thread {doing.holder.name} is at {doing.holder.where}" if doing.holder and doing.holder.where else ""
    return f"{label}{where}{motion}{cpu}{held if doing.kind == 'lock' else ''}"


def as_text(merged: Merged) -> str:
    """Groups with their stacks, smallest first, innermost frame first; ``>`` marks what the largest does not share."""
    blocks = []
    for group in merged.groups:
        lines = [f"  {'>' if line.differs else ' '} {line.text}" for line in group.lines]
        blocks.append("\n".join([summary(group), *lines]))
    return "\n\n".join(blocks) + "\n" if blocks else ""


def as_folded(merged: Merged) -> str:
    """Folded stacks, ``outer;inner 62``, one line for each path of the main threads; the number counts looks."""
    tree = merged.trees.get("main")
    return "".join(f"{path} {count}\n" for path, count in _paths(tree, ())) if tree is not None else ""


def _paths(node: TreeNode, above: tuple[str, ...]) -> list[tuple[str, int]]:
    path = (*above, *node.frames)
    found = [pair for child in node.children for pair in _paths(child, path)]
    ending = node.looks - sum(child.looks for child in node.children)
    if ending and path:
        found.append((";".join(frame.replace(";", ",") for frame in path), ending))
    return found
