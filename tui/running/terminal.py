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
    """Textual's driver; the application ends when its terminal is gone, and reads it in one thread alone.

    A process that is continued hears SIGCONT, and Textual takes the terminal at that. Python calls a handler when it
    comes to it: after Ctrl-Z and ``fg`` that may be while :func:`~tui.handlers.own.suspend` takes the terminal itself,
    or after it. A second thread then read there, too: each waited for what the other had read, so that ``q`` was not
    done before the next key, and the shell got a terminal back that was still raw.
    """

    def __init__(self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None):
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        file = LastingFile(cast("TextIO", sys.__stderr__), self._leave)
        self._file = cast("TextIOWrapper", file)
        self._taking = self._again = False
        """The terminal is being taken, and was to be taken once more meanwhile."""

    @property
    def _reads(self) -> bool:
        return self._key_thread is not None and self._key_thread.is_alive()

    def start_application_mode(self) -> None:
        """Take the terminal, once; also when a signal's handler does so in the midst of it."""
        if self._taking:
            self._again = True
            return
        self._taking = True
        try:
            wanted = not self._reads
            while wanted:
                self._again = False
                super().start_application_mode()  # type: ignore[no-untyped-call]
                # in the background it took nothing: the handler's turn was for then
                wanted = self._again and not self._reads
        finally:
            self._taking = False

    def _leave(self) -> None:
        self._loop.call_soon_threadsafe(self._app.exit)
