"""Lines that many ranks write at about the same time, as one: of thousands of nodes each would push out all others.

Two lines are alike when they differ in numbers alone, but not in that of a step: who is behind has its own line.
"""

from __future__ import annotations

import re
from typing import Protocol

WINDOW = 2.0
"""Seconds within which ranks write a line at the same time."""
MANY = 4096
"""Lines that others may still be like; when there are more, those of long ago are forgotten."""

_NUMBERS = re.compile(
    r"(\b(?:step|iter|iteration|epoch|batch)\b\W{0,3}\d+)|0x[0-9a-fA-F]+|\d+(?:\.\d+)?", re.IGNORECASE
)


class FoldableLine(Protocol):
    """What is asked of a line."""

    @property
    def at(self) -> float:
        """When it was written."""

    @property
    def serial(self) -> int:
        """Its number; no other line has it."""

    @property
    def node(self) -> str:
        """Where it was written."""

    @property
    def rank(self) -> int | None:
        """Who wrote it."""

    @property
    def severity(self) -> int:
        """How bad it is."""

    @property
    def text(self) -> str:
        """Its words."""


class Fold:
    """Who wrote lines that are shown as one."""

    __slots__ = ("at", "nodes", "ranks", "serial", "writers")

    def __init__(self, line: FoldableLine) -> None:
        """Begin with the one that is shown."""
        self.at, self.serial = line.at, line.serial
        self.writers: set[tuple[str, int | None]] = set()
        self.nodes: set[str] = set()
        self.ranks: set[int] = set()
        self.add(line)

    def add(self, line: FoldableLine) -> None:
        """Another one."""
        self.writers.add((line.node, line.rank))
        self.nodes.add(line.node)
        if line.rank is not None:
            self.ranks.add(line.rank)

    @property
    def label(self) -> str:
        """``×312 nodes``; ``×2496 ranks`` where several of a node wrote it. Empty for a line that is alone."""
        if len(self.writers) < 2:
            return ""
        of_ranks = len(self.ranks) == len(self.writers) > len(self.nodes)
        return f"×{len(self.writers):,} {'ranks' if of_ranks else 'nodes'}"


class Folds:
    """Takes lines in the order in which they come."""

    def __init__(self) -> None:
        self._latest: dict[tuple[int, str], Fold] = {}
        self._of: dict[int, Fold] = {}
        """By the serial number of each line, shown or folded away."""
        self.folded = 0
        """Lines that are shown as part of another."""

    def takes(self, line: FoldableLine) -> bool:
        """Whether it is part of one that is shown already, of which it is then; else others may be part of it."""
        key = line.severity, _NUMBERS.sub(_kept, line.text)
        fold = self._latest.get(key)
        if fold is not None and abs(line.at - fold.at) <= WINDOW and (line.node, line.rank) not in fold.writers:
            fold.add(line)
            self._of[line.serial] = fold
            self.folded += 1
            return True
        if len(self._latest) >= MANY:
            self._latest = {key: fold for key, fold in self._latest.items() if line.at - fold.at <= WINDOW}
        self._latest[key] = self._of[line.serial] = Fold(line)
        return False

    def of(self, line: FoldableLine) -> Fold | None:
        """What a line is part of; None for one that never came."""
        return self._of.get(line.serial)


def _kept(match: re.Match[str]) -> str:
    return match[1] or "#"
