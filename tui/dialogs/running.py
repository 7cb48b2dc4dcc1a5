"""Something that takes seconds and can be stopped: its progress line by line, then its answer in the same place."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.dialogs.base import TextDialog
from tui.looks.text import harmless
from tui.looks.theme import Tone
from tui.widgets.lines import Content


class RunningDialog(TextDialog):
    """Shows what is said while something runs, then the answer. Escape calls ``stop`` first, then closes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "stop", "stop, and clean up on the nodes")]

    def __init__(self, title: str, stop: Callable[[], object]) -> None:
        super().__init__(title, [])
        self.running = True
        self._stop = stop
        self._began = time.monotonic()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While it runs it can be stopped; afterwards it is a text to read."""
        if action in {"stop", "close", "find", "copy"}:
            return self.running == (action == "stop")
        return super().check_action(action, parameters)

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
            self.refresh_bindings()

    def action_stop(self) -> None:
        """Stop it."""
        self.say("stopping …")
        self._stop()
