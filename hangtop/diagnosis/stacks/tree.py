"""One prefix tree over the stacks of many ranks, and over several looks at each: edges carry sets of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hangtop.diagnosis.phrasing import folded as folded_ranks


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
