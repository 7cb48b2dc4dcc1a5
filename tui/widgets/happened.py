"""What happened, the newest first; up to the moment that is shown, which is marked on the line of time."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from hangtop.session.changes import Change
from tui.changes import MARKS, OUTCOMES, FewLines
from tui.format import clock
from tui.scene import Scene
from tui.text import cells, harmless, wrap
from tui.theme import Tone
from tui.widgets.lines import Lines, Piece, strip_of

LEAST = 20
"""Cells beside a change's time in which it is worth being wrapped."""


class Happened(Lines):
    """What happened to the job; what matters to hangtop alone is counted, not told."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="changes")
        self.scene = scene
        self._lines: list[list[Piece]] = []
        self._hidden = 0
        self._left_out = False
        self._telling = FewLines()
        self._newest: tuple[Change | None, int, int, int, bool] = (None, 0, 0, 0, False)
        """The last change that was drawn, how many there were, in how many lines all were, how wide, and whether the
        job started then."""

    def feed(self) -> None:
        """Take the latest changes and draw."""
        changes, (width, height) = self.scene.state.changes, self.size
        newest = changes.newest
        verdict = self.scene.session.verdict
        starts = verdict is not None and verdict.outcome == "starting"
        if newest is not self._newest[0] or (len(changes), height, width, starts) != self._newest[1:]:
            self._newest = newest, len(changes), height, width, starts
            self._hidden = sum(1 for _ in changes.of("hangtop"))
            lines, self._left_out = self._telling.chosen(changes, max(1, height - 1), self.scene.names)
            self._lines = _laid(self._once(lines), width, height - 1)
            self.redraw()

    def _once(self, lines: list[Change]) -> list[Change]:
        """Without the sentence of a job that starts: the first line of the screen goes on saying it."""
        verdict = self.scene.session.verdict
        if verdict is None or verdict.outcome != "starting":
            return lines
        last = next((line for line in lines if line.kind in OUTCOMES), None)
        return [Change(line.at, line.node, "", line.kind) if line is last else line for line in lines]

    def on_resize(self) -> None:
        """Lay out for the new size at once."""
        super().on_resize()
        self.feed()

    def paint(self, y: int, width: int) -> Strip:
        """A title, then one change a line."""
        if y == 0:
            title = " what happened, the last of each kind " if self._left_out else " what happened "
            right = f" {self._hidden} of hangtop's own hidden ─" if self._hidden else ""
            right = right if cells(title) + cells(right) <= width else ""
            line = "─" * max(0, width - cells(title) - cells(right))
            return strip_of([(title + line + right, Tone.DIM)], width, self.ink)
        if y - 1 >= len(self._lines):
            text = "nothing yet" if y == 1 else ""
            return strip_of([(f" {text}", Tone.DIM)], width, self.ink)
        return strip_of(self._lines[y - 1], width, self.ink)


def _laid(changes: Sequence[Change], width: int, height: int) -> list[list[Piece]]:
    """A line each; where lines are left over, what is longer than one has more, the newest first."""
    lines: list[list[Piece]] = []
    spare = height - len(changes)
    for change in changes:
        sign = MARKS[change.kind]
        head: list[Piece] = [
            (f" {clock(change.at, millis=False)} ", Tone.DIM),
            (f"{sign.glyph} ", sign.tone),
            (f"{change.node} " if change.node else "", Tone.INFO),
            # a verdict's word first, for the sentence may be cut
            (f"{sign.label} " if change.kind in OUTCOMES else "", sign.tone),
        ]
        used, text = sum(cells(told) for told, _ in head), harmless(change.text)
        room = width - used
        parts = wrap(text, room) if spare > 0 and LEAST <= room < cells(text) else [text]
        if len(parts) > 1 + spare:
            parts = [*parts[:spare], " ".join(parts[spare:])]
        spare -= len(parts) - 1
        lines.append([*head, (parts[0], Tone.TEXT)])
        lines += [[(" " * used, Tone.TEXT), (part, Tone.TEXT)] for part in parts[1:]]
    return lines
