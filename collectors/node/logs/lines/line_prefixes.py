"""What stands in front of every line of a record in whatever form: known by standing there again.

A logger's, a container's or a launcher's prefix that no pattern knows differs from line to line in its numbers alone.
"""

from __future__ import annotations

from typing import Optional, Pattern

from collectors.node import late_re as re
from collectors.node.logs.lines import whose

MOST = 160
"""Characters of a front at most."""
_FRAME = re.compile(r'(?P<front>[^"\r\n]{1,160}?)(?P<line>(?: {2}|\t)File "[^"\r\n]{1,400}", line \d{1,7}\b)')
_NUMBER = re.compile(r"\d+")


class LinePrefix:
    """Takes the same front off each line; one that names another rank or host is not the same."""

    def __init__(self, front: str) -> None:
        self.text = front
        self._whose = whose.of(front)
        parts = [re.escape(part) for part in _NUMBER.split(front)]
        self._shape: Pattern[str] = re.compile(r"\d{1,20}".join(parts))

    def off(self, text: str) -> Optional[str]:
        """The rest of a line; None where something else stands in front."""
        match = self._shape.match(text)
        if match is not None:
            named = self._whose if match.group() == self.text else whose.of(match.group())
            return text[match.end() :] if named[:2] == self._whose[:2] else None
        bare = self.text.rstrip()
        return "" if text.rstrip() == bare else None


def before(text: str, opener: str) -> Optional[LinePrefix]:
    """What stands in front of a word that opens a record; None where that is indentation alone, or too long."""
    front = text[: text.find(opener)]
    return LinePrefix(front) if front.strip() and len(front) <= MOST else None


def before_frame(text: str) -> Optional[LinePrefix]:
    """What stands in front of a frame of Python's, with a blank or a bracket before the frame's own indentation."""
    match = _FRAME.match(text)
    if match is None or not match.group("front").strip() or match.group("front").lstrip().startswith("File"):
        return None
    return LinePrefix(match.group("front"))
