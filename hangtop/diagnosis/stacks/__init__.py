"""Stacks: what frames mean, what a rank is doing, and one merged picture of many ranks."""

from __future__ import annotations

from hangtop.diagnosis.stacks.doing import Activity, Context, Cpu, Group, Kind, Role, ThreadNote, Waits
from hangtop.diagnosis.stacks.export import as_folded, as_text, describe, summary
from hangtop.diagnosis.stacks.judge import activity
from hangtop.diagnosis.stacks.merge import Merged, StackGroup, StackLine, merge
from hangtop.diagnosis.stacks.ranks import parse_ranks
from hangtop.diagnosis.stacks.tree import TreeNode

__all__ = [
    "Activity",
    "Context",
    "Cpu",
    "Group",
    "Kind",
    "Merged",
    "Role",
    "StackGroup",
    "StackLine",
    "ThreadNote",
    "TreeNode",
    "Waits",
    "activity",
    "as_folded",
    "as_text",
    "describe",
    "merge",
    "parse_ranks",
    "summary",
]
