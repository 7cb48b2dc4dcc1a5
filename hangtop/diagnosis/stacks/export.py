"""Merged stacks as text: for a report, and as folded stacks for flame graph tools."""

from __future__ import annotations

from hangtop.diagnosis.phrasing import of_several
from hangtop.diagnosis.stacks.merge import Merged, StackGroup
from hangtop.diagnosis.stacks.states import Activity
from hangtop.diagnosis.stacks.tree import TreeNode


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
