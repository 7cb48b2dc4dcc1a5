"""The terminal: it may go away without a word, and is rung once for each alarm."""

from __future__ import annotations

import os
import threading
from typing import Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from hangtop.diagnosis.finding import Verdict

ALARM = frozenset({"hung", "crashed", "at_risk"})
"""Verdicts that ring."""
WRITER = "textual-output"
"""Name of Textual's thread that writes: once it has ended by an error, whoever writes on waits for ever."""
LONGEST = 10.0
"""Seconds that leaving may take when the terminal is gone."""


class TerminalDriver(LinuxDriver):
    """Textual's driver; the application ends when its terminal is gone."""

    def __init__(self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None):
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._gone = False
        self._before = threading.excepthook
        self._leave = app.exit
        threading.excepthook = self._thread_failed

    def _thread_failed(self, failed: threading.ExceptHookArgs) -> None:
        if failed.thread is None or failed.thread.name != WRITER:
            self._before(failed)
            return
        self._gone = True
        # where the loop itself waits for the writer it never hears of it: then nodes notice that we are gone
        end = threading.Timer(LONGEST, os._exit, (129,))
        end.daemon = True
        end.start()
        self._leave()

    def write(self, data: str) -> None:
        """Write, as long as there is a terminal."""
        if not self._gone:
            super().write(data)


class Alarm:
    """Remembers which alarm was rung, so that one hang rings once."""

    def __init__(self) -> None:
        self._rung: tuple[object, ...] = ()

    def rings(self, verdict: Verdict | None) -> bool:
        """Whether the verdict is a new alarm. A healthy verdict between two hangs makes the next one new."""
        if verdict is None or verdict.outcome not in ALARM:
            if verdict is not None and verdict.outcome in {"healthy", "starting"}:
                self._rung = ()
            return False
        first = next(iter(verdict.findings), None)
        before, self._rung = self._rung, (verdict.outcome, first and first.kind, first and first.ranks)
        return self._rung != before
