"""Stacks: what frames mean, what a rank is doing, and one merged picture of many ranks."""

from __future__ import annotations

from hangtop.diagnosis.stacks.activity import activity
from hangtop.diagnosis.stacks.export import as_folded, as_text, describe, summary
from hangtop.diagnosis.stacks.merge import Merged, StackGroup, StackLine, merge
from hangtop.diagnosis.stacks.states import Activity, Meaning, TargetKind, ThreadNote, Waits
from hangtop.diagnosis.stacks.tree import TreeNode

__all__ = [
    "Activity",
    "Meaning",
    "Merged",
    "StackGroup",
    "StackLine",
    "TargetKind",
    "ThreadNote",
    "TreeNode",
    "Waits",
    "activity",
    "as_folded",
    "as_text",
    "describe",
    "merge",
    "summary",
]
