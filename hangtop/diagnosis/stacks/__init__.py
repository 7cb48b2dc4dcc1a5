"""Stacks: what frames mean, what a rank is doing, and one merged picture of many ranks."""

from __future__ import annotations

from hangtop.diagnosis.stacks.activity import activity
from hangtop.diagnosis.stacks.merge import Merged, StackGroup, as_text, merge, summary
from hangtop.diagnosis.stacks.states import Activity

__all__ = [
    "Activity",
    "Merged",
    "StackGroup",
    "activity",
    "as_text",
    "merge",
    "summary",
]
