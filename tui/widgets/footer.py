"""Last line: the keys that matter here, and what hangtop itself costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import events
from textual.message import Message

from tui.actions import Action, shown_keys
from tui.text import cells
from tui.theme import Ground, Tone
from tui.widgets.bar import Bar
from tui.widgets.lines import Piece, between

if TYPE_CHECKING:
    import psutil


class Footer(Bar):
    """Keys on the left, as many as there is room for; CPU and memory of this process on the right."""

    class Pressed(Message):
        """An action was clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self) -> None:
        super().__init__(id="footer", ground=Ground.BAR)
        self._process: psutil.Process | None = None
        self._cost: list[Piece] = []
        self._spans: list[tuple[int, int, str]] = []
        self._told: tuple[Sequence[tuple[Action, str]], list[Piece], int] = ((), [], 0)

    def tell(self, actions: Sequence[tuple[Action, str]]) -> None:
        """Show these actions with their present keys."""
        right = self._cost
        told = (actions, right, self.size.width)
        if told == self._told:
            return
        self._told = told
        room = self.size.width - sum(cells(text) for text, _ in right) - 2
        left: list[Piece] = [(" ", Tone.TEXT)]
        used, self._spans = 1, []
        for action, keys in actions:
            key = shown_keys(keys)[0]
            width = cells(key) + 1 + cells(action.title) + 2
            if used + width > room:
                continue
            left += [(key, Tone.ACCENT), (f" {action.title}  ", Tone.DIM)]
            self._spans.append((used, used + width - 2, action.id))
            used += width
        self.show(between(left, right, self.size.width))

    def measure(self) -> None:
        """Look at hangtop's own cost. The first look, which imports psutil, comes after the first frame."""
        if self._process is None:
            import psutil

            self._process = psutil.Process()
            self._process.cpu_percent()
            return
        with self._process.oneshot():
            cpu, memory = self._process.cpu_percent(), self._process.memory_info().rss
        self._cost = [("hangtop ", Tone.DIM), (f"{cpu:.0f}% {memory / 2**20:.0f}M ", Tone.TEXT)]

    def on_click(self, event: events.Click) -> None:
        """A key that is clicked is a key that is pressed."""
        for start, end, action in self._spans:
            if start <= event.x < end:
                self.post_message(self.Pressed(action))
