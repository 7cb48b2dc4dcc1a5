"""Last line: the keys that matter here, and what hangtop itself costs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from textual import events
from textual.message import Message

from tui.looks.keys import shown_keys
from tui.looks.text import cells
from tui.looks.theme import Ground, Tone
from tui.widgets.bar import Bar
from tui.widgets.lines import Piece, between

if TYPE_CHECKING:
    import psutil


NARROW = 100
"""Cells below which what hangtop costs is left out where a key would be: panel 6 tells it, too."""


class FooterKey(NamedTuple):
    """A key of the footer."""

    action: str
    """Id of what it does."""
    keys: str
    """As Textual writes them, several by commas: the first is shown."""
    title: str


class Footer(Bar):
    """Keys on the left, as many as there is room for; CPU and memory of this process on the right."""

    class Pressed(Message):
        """An action was clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, always: Collection[str]) -> None:
        """Ids of ``always`` are shown however narrow it is."""
        super().__init__(id="footer", ground=Ground.BAR)
        self._always = frozenset(always)
        self._process: psutil.Process | None = None
        self._cost: list[Piece] = []
        self._spans: list[tuple[int, int, str]] = []
        self._told: tuple[Sequence[FooterKey], list[Piece], int] = ((), [], 0)

    def tell(self, keys: Sequence[FooterKey]) -> None:
        """Show these keys, the most useful first."""
        right = self._cost
        told = (keys, right, self.size.width)
        if told == self._told:
            return
        self._told = told
        room = self.size.width - sum(cells(text) for text, _ in right) - 2
        width = self.size.width - 2
        least = sum(_width(one) for one in keys if one.action in self._always)
        if least > room or (width < NARROW and sum(_width(one) for one in keys) > room):
            right, room = [], width  # the keys matter more than what hangtop costs
        left: list[Piece] = [(" ", Tone.TEXT)]
        used, self._spans = 1, []
        for one in keys:
            wide = _width(one)
            if one.action in self._always:
                least -= wide
            if used + wide + least > room:
                continue
            left += [(shown_keys(one.keys)[0], Tone.ACCENT), (f" {one.title}  ", Tone.DIM)]
            self._spans.append((used, used + wide - 2, one.action))
            used += wide
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


def _width(key: FooterKey) -> int:
    return cells(shown_keys(key.keys)[0]) + 1 + cells(key.title) + 2
