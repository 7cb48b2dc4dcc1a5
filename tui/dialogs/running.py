"""Something that takes seconds and can be stopped: its progress line by line, then its answer in the same place."""

from __future__ import annotations

import time
from collections.abc import Callable

from tui.dialogs.base import TextDialog
from tui.looks.text import harmless
from tui.looks.theme import Tone
from tui.widgets.lines import Content


class RunningDialog(TextDialog):
    """Shows what is said while something runs, then the answer. Escape calls ``stop`` first, then closes."""

    def __init__(self, title: str, stop: Callable[[], object]) -> None:
        super().__init__(f"{title}   (Esc stops it, and cleans up on the nodes)", [])
        self.running = True
        self._stop = stop
        self._began = time.monotonic()

    def say(self, line: str) -> None:
        """Add a line of progress, with the seconds that have gone by."""
        took = f"{time.monotonic() - self._began:6.1f} s  "
        self.text.show([*self.text.content, [(took, Tone.DIM), (harmless(line), Tone.TEXT)]], at_end=True)

    def finish(self, title: str, content: Content) -> None:
        """Show the answer in place of the progress."""
        self.running = False
        if self.is_attached:
            self.rename(title)
            self.text.show(content)

    def action_close(self) -> None:
        """Stop it; or close, when it has ended."""
        if self.running:
            self.say("stopping …")
            self._stop()
        else:
            super().action_close()
