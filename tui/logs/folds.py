"""Lines that many ranks write at about the same time, as one: of thousands of nodes each would push out all others.

Two lines are alike when they differ in numbers alone, but not in that of a step: who is behind has its own line.
"""

from __future__ import annotations

import re

from tui.logs.line import LogLine

WINDOW = 2.0
"""Seconds within which ranks write a line at the same time."""
_NUMBERS = re.compile(
    r"(\b(?:step|iter|iteration|epoch|batch)\b\W{0,3}\d+)|0x[0-9a-fA-F]+|\d+(?:\.\d+)?", re.IGNORECASE
)


class Fold:
    """Who wrote lines that are shown as one; the first is the one that is shown."""

    def __init__(self, first: LogLine) -> None:
        self.first = first
        self.writers = {(first.node, first.rank)}

    @property
    def nodes(self) -> set[str]:
        """Names of their nodes."""
        return {node for node, _ in self.writers}

    @property
    def ranks(self) -> set[int]:
        """Their ranks."""
        return {rank for _, rank in self.writers if rank is not None}

    @property
    def label(self) -> str:
        """``×312 nodes``; ``×2496 ranks`` where several of a node wrote it. Empty for a line that is alone."""
        many = len(self.writers)
        ranks = len(self.ranks) == many > len(self.nodes)
        return f"×{many:,} {'ranks' if ranks else 'nodes'}" if many > 1 else ""


class Folds:
    """Takes lines in the order in which they come."""

    def __init__(self) -> None:
        self._latest: dict[tuple[int, str], Fold] = {}
        self._of: dict[int, Fold] = {}
        """By the serial number of each line, shown or folded away."""
        self.folded = 0
        """Lines that are shown as part of another."""

    def takes(self, line: LogLine) -> bool:
        """Whether it is part of one that is shown already, of which it is then; else others may be part of it."""
        key = line.severity, _NUMBERS.sub(lambda match: match[1] or "#", line.text)
        fold = self._latest.get(key)
        if fold and abs(line.at - fold.first.at) <= WINDOW and (line.node, line.rank) not in fold.writers:
            fold.writers.add((line.node, line.rank))
            self._of[line.serial] = fold
            self.folded += 1
            return True
        self._latest[key] = self._of[line.serial] = Fold(line)
        return False

    def of(self, line: LogLine) -> Fold:
        """What a line is part of."""
        return self._of.get(line.serial) or Fold(line)

    def forget(self, before: LogLine) -> None:
        """Let go of what lines that are gone were part of."""
        self._latest = {key: fold for key, fold in self._latest.items() if fold.first >= before}
        self._of = {serial: fold for serial, fold in self._of.items() if fold.first >= before}
