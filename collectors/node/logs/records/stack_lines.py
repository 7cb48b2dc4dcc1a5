"""What every reader of a printed stack keeps: its frames, and its first lines as they stood."""

from __future__ import annotations

from typing import List, Optional

FRAMES = 200
"""Frames kept of one stack; the innermost or outermost ones that come first."""
LINES = 40
CHARACTERS = 4000


class StackLines:
    """Frames and lines of one stack, bounded; ``over`` once a line was none of it."""

    def __init__(self) -> None:
        self.over = False
        self._frames: List[str] = []
        self._lines: List[str] = []

    def _keep(self, text: str, frame: Optional[str]) -> None:
        """A line of the stack, and the frame that it shows, if it does."""
        if frame is not None and len(self._frames) < FRAMES:
            self._frames.append(frame)
        if len(self._lines) < LINES:
            self._lines.append(text)

    @property
    def text(self) -> str:
        """Its first lines."""
        return "\n".join(self._lines)[:CHARACTERS]
