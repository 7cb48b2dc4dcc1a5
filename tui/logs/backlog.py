"""Which lines of a log that comes on view again are known from when it was on view before."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

COMPARED = 4
"""Lines before one that must be the same for it to be the one that came last: many lines of a log are alike."""


class LastLinesCame:
    """The last lines that came of each file; bounded by the number of files alone."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], deque[str]] = {}

    def came(self, node: str, path: str, lines: Sequence[str]) -> None:
        """Note what came of a file."""
        last = self._last.get((node, path))
        if last is None:
            last = self._last[node, path] = deque(maxlen=COMPARED)
        last.extend(lines[-COMPARED:])

    def known(self, node: str, path: str, backlog: Sequence[str]) -> int:
        """How many lines at the beginning of a file's backlog have come before."""
        last = list(self._last.get((node, path), ()))[::-1]
        if not last:
            return 0
        for end in range(len(backlog), 0, -1):
            behind = backlog[max(0, end - len(last)) : end][::-1]
            if behind == last[: len(behind)]:
                return end
        return 0
