"""The terminal: a driver that survives its loss, and the bell, which rings once per alarm."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from hangtop.diagnosis.finding import Verdict

ALARM = frozenset({"hung", "crashed", "at_risk"})
"""Verdicts that ring."""
WRITER = "textual-output"
"""Name of Textual's writer thread: after an error in it, further writes would block for ever."""
LONGEST = 10.0
"""Most seconds for an orderly exit after the terminal is gone."""


class TerminalDriver(LinuxDriver):
    """Textual's driver; the application ends when its terminal is gone, and one thread reads it after SIGCONT.

    Textual's own handler starts a second reader after a SIGSTOP, which no program can catch: keys get lost between the
    two, and the process waits for the first one for ever when it ends.
    """

    def __init__(self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None):
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._gone = False
        self._before = threading.excepthook
        self._leave = app.exit
        threading.excepthook = self._thread_failed
        signal.signal(signal.SIGCONT, self._continued)

    def _thread_failed(self, failed: threading.ExceptHookArgs) -> None:
        if failed.thread is None or failed.thread.name != WRITER:
            self._before(failed)
            return
        self._gone = True
        # the loop itself may be blocked by the writer: then exit hard, and the nodes notice the closed connection
        end = threading.Timer(LONGEST, os._exit, (129,))
        end.daemon = True
        end.start()
        self._leave()

    def _continued(self, *_: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take_again)  # in the loop: never while the terminal is being taken

    def _take_again(self) -> None:
        """Read and draw again; after SIGTSTP, Textual has left the terminal already."""
        if self._app.is_running:
            if self._key_thread is not None and self._key_thread.is_alive():
                self.suspend_application_mode()
            self.resume_application_mode()
            self._app.refresh(layout=True)

    def write(self, data: str) -> None:
        """Write, unless the terminal is gone."""
        if not self._gone:
            super().write(data)


class Alarm:
    """Remembers the last alarm, so that one hang rings once."""

    def __init__(self) -> None:
        self._rung: tuple[object, ...] = ()

    def rings(self, verdict: Verdict | None) -> bool:
        """True for a new alarm. After a healthy verdict, the same hang is a new alarm again."""
        if verdict is None or verdict.outcome not in ALARM:
            if verdict is not None and verdict.outcome in {"healthy", "starting"}:
                self._rung = ()
            return False
        first = next(iter(verdict.findings), None)
        before, self._rung = self._rung, (verdict.outcome, first and first.kind, first and first.ranks)
        return self._rung != before
