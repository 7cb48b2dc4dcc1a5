"""A list of things that can be done: one is chosen, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.dialogs.base import Dialog, Text
from tui.looks.text import harmless
from tui.looks.theme import Tone
from tui.widgets.lines import Piece

SHOWS = "say what it does and ask"


@dataclass(frozen=True, slots=True)
class Choice:
    """One line to choose, and what has to be known before."""

    title: str
    detail: str = ""
    tone: Tone = Tone.TEXT


def _details(choice: Choice) -> list[str]:
    """Lines below its title."""
    return [line for line in choice.detail.splitlines() if line.strip()]


class ChoiceDialog(Dialog[int | None]):
    """Up and down, Enter; its answer is the place in the list. ``notes`` are shown below and cannot be chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "Up"),
        Binding("down,j", "step(1)", "Down"),
        Binding("home,g", "step(-100000)", "Top"),
        Binding("end,G", "step(100000)", "Bottom"),
        Binding("enter", "choose", "Choose"),
        Binding("escape,q", "leave", "Leave"),
    ]

    def __init__(self, title: str, choices: Sequence[Choice], notes: Sequence[str] = (), *, does: str = SHOWS) -> None:
        super().__init__(title, wide=True)
        self._does = does
        self._choices, self._notes = tuple(choices), tuple(notes)
        self._at = 0
        self._text = Text(self._lines()[0])

    def content(self) -> ComposeResult:
        """The list."""
        yield self._text

    def keys(self) -> list[Piece]:
        """Moving, choosing, leaving."""
        return [
            ("↑↓", Tone.ACCENT), (" move  ", Tone.DIM), ("Enter", Tone.ACCENT),
            (f" {self._does}  ", Tone.DIM), ("Esc", Tone.ACCENT), (" leave it", Tone.DIM),
        ]  # fmt: skip

    def _lines(self) -> tuple[list[list[Piece]], int]:
        """All lines, and the one that the chosen entry begins at."""
        lines: list[list[Piece]] = []
        top = 0
        for place, choice in enumerate(self._choices):
            here = place == self._at
            top = len(lines) if here else top
            marker: Piece = ("> ", Tone.ACCENT) if here else ("  ", Tone.DIM)
            lines.append([marker, (harmless(choice.title), Tone.STRONG if here else choice.tone)])
            lines += [[("    ", Tone.DIM), (line, Tone.DIM)] for line in _details(choice)]
        lines += [[("  ", Tone.DIM), (note, Tone.WARN)] for note in self._notes]
        return lines, top

    def _show(self) -> None:
        lines, top = self._lines()
        self._text.show(lines)
        self._text.bring_line(top + 1)

    def action_step(self, step: int) -> None:
        """Go up or down."""
        self._at = min(len(self._choices) - 1, max(0, self._at + step))
        self._show()

    def on_text_clicked(self, event: Text.Clicked) -> None:
        """Go to the entry that was clicked; twice chooses it."""
        of_lines = [at for at, choice in enumerate(self._choices) for _ in range(1 + len(_details(choice)))]
        if event.place < len(of_lines):
            self.action_step(of_lines[event.place] - self._at)
            if event.twice:
                self.action_choose()

    def action_choose(self) -> None:
        """Choose what the marker is at."""
        self.dismiss(self._at)

    def action_leave(self) -> None:
        """Choose nothing."""
        self.dismiss(None)
