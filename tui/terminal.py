"""The terminal that the screen is drawn on, which may go away without a word.

Textual's thread that writes ends with the first error, and then everything waits for it; its thread that reads asks a
terminal that is gone again and again. No signal would be heard any more, and the connections to the nodes stayed open.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import Any, TextIO, cast

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver


def shell_waits() -> bool:
    """True where somebody outside this process group, in its session, has started it: a shell with jobs.

    Of a group without such a parent (POSIX: an orphaned one) nobody hears that it was stopped.
    """
    import psutil  # after the first frame

    group, above = os.getpgrp(), psutil.Process()
    while (parent := above.parent()) is not None:
        try:
            if os.getpgid(parent.pid) != group:
                return os.getsid(parent.pid) == os.getsid(0)
        except ProcessLookupError:  # it has just ended
            return False
        above = parent
    return False


class LastingFile:
    """A file that takes all that is written: from the first error on it keeps nothing, and ``gone`` is called once."""

    def __init__(self, file: TextIO, gone: Callable[[], object]) -> None:
        self._file = file
        self._gone = gone
        self.lost = False

    def fileno(self) -> int:
        """Its number, for questions about the terminal."""
        return self._file.fileno()

    def write(self, text: str) -> int:
        """Write, as long as there is somebody to read it."""
        return self._try(lambda: self._file.write(text))

    def flush(self) -> None:
        """Flush, as long as there is somebody to read it."""
        self._try(self._file.flush)

    def _try(self, does: Callable[[], int | None]) -> int:
        if self.lost:
            return 0
        try:
            return does() or 0
        except (OSError, ValueError):  # broken pipe, a terminal that hung up, a closed file
            self.lost = True
            self._gone()
            return 0


class TerminalDriver(LinuxDriver):
    """Textual's driver; the application ends when its terminal is gone."""

    def __init__(self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None):
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        file = LastingFile(cast("TextIO", sys.__stderr__), self._leave)
        self._file = cast("TextIOWrapper", file)

    def _leave(self) -> None:
        self._loop.call_soon_threadsafe(self._app.exit)
