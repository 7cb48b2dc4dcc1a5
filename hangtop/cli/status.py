"""One line of progress on standard error, rewritten in place; silent when nobody looks."""

from __future__ import annotations

import shutil
import sys
from typing import ClassVar, TextIO


class Status:
    """Shows what is being waited for."""

    held: ClassVar[int] = 0
    """Questions that stand on the terminal: meanwhile nothing is written over what is typed."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._shown = ""
        self._visible = self._stream.isatty()

    def say(self, text: str) -> None:
        """Show this line in place of the last one."""
        if self._visible and text != self._shown and not Status.held:
            width = shutil.get_terminal_size().columns - len("^C") - 1
            self._stream.write("\r\x1b[2K" + text[:width])
            self._stream.flush()
            self._shown = text

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
            self._shown = ""
