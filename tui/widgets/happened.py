"""What happened, the newest first; up to the moment that is shown, which is marked on the line of time.

With the cursor in it all that is known is listed, what came after that moment, too: Enter goes to the moment of a line.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message
from textual.strip import Strip

from hangtop.session.state.changes import Change
from tui.logs.changes import MARKS, OUTCOMES, FewLines
from tui.looks.format import clock
from tui.looks.text import cells, harmless, wrap
from tui.looks.theme import Ground, Tone
from tui.scene import Scene
from tui.sharing import FEW
from tui.widgets.lines import Lines, Move, Piece, strip_of

LEAST = 20
"""Cells beside a change's time in which it is worth being wrapped."""
FEW_LINES = 16
"""Lines of which it is known whether they are there, so that others have those that are not."""
ALL = 4096
"""Lines of each kind that the cursor can go through."""

Row = tuple[int, list[Piece]]
"""A line: the place of the change that it tells, and what is written."""


class Happened(Lines):
    """What happened to the job; what matters to hangtop alone is counted, not told."""

    DEFAULT_CSS = """
    Happened { scrollbar-size: 0 0; overflow: hidden; }
    """

    class Chosen(Message):
        """A line was clicked."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="changes")
        self.scene = scene
        self.active = False
        """Whether the cursor is here."""
        self._changes: list[Change] = []
        """What is told, the newest first."""
        self._rows: list[Row] = []
        self._cursor = self._up = 0
        """Place of the change under the cursor; rows that are out of sight above."""
        self.fills = 0
        """Lines that all of it fills, with the title, :data:`FEW_LINES` at the most; 0 until it was laid out, and of a
        larger job, whose charts do not depend on it."""
        self._hidden = 0
        self._left_out = False
        self._telling, self._telling_all, self._measuring = FewLines(), FewLines(), FewLines()
        self._listed = False
        """Whether all are told: the cursor was here when they were laid out."""
        self._known: tuple[Change | None, tuple[object, ...]] = (None, ())
        """The last change that was drawn, and all else that the rows depend on."""

    def feed(self) -> None:
        """Take the latest changes and draw."""
        state, timeline, (width, height) = self.scene.state, self.scene.timeline, self.size
        changes = timeline.head.state.changes if self.active else state.changes
        verdict = self.scene.session.verdict
        starts = verdict is not None and verdict.outcome == "starting"
        known = len(changes), height, width, starts, self.active, timeline.at
        if changes.newest is self._known[0] and known == self._known[1]:
            return
        before = self.current if self._listed else None
        self._known, self._listed = (changes.newest, known), self.active
        self._hidden = sum(1 for _ in changes.of("hangtop"))
        if self.active:
            self._changes, self._left_out = self._telling_all.chosen(changes, ALL, self.scene.names)
            self._rows = _laid(self._changes, width, None)
            self._cursor = self._place_of(before)
            self._follow()
        else:
            lines, self._left_out = self._telling.chosen(changes, max(1, height - 1), self.scene.names)
            self._changes, self._up = self._once(lines), 0
            self._rows = _laid(self._changes, width, height - 1)
        if len(self.scene.nodes) <= FEW:  # of thousands that connect there are many, and nobody asks for it
            few = self._measuring.chosen(changes, FEW_LINES, self.scene.names).lines
            self.fills = 1 + min(FEW_LINES, len(_laid(few, width, None)))
        self.redraw()

    def _once(self, lines: list[Change]) -> list[Change]:
        """Without the sentence of a job that starts: the first line of the screen goes on saying it."""
        verdict = self.scene.session.verdict
        if verdict is None or verdict.outcome != "starting":
            return lines
        last = next((line for line in lines if line.kind in OUTCOMES), None)
        return [Change(line.at, line.node, "", line.kind) if line is last else line for line in lines]

    # --- the cursor ----------------------------------------------------------------------------------------------

    @property
    def current(self) -> Change | None:
        """What is told under the cursor."""
        return self._changes[self._cursor] if self._cursor < len(self._changes) else None

    def _place_of(self, change: Change | None) -> int:
        """Where a change is told now: its line, or the one that took it in."""
        if change is None:
            return 0 if self.scene.timeline.at is None else self._nearest(self.scene.timeline.at)
        same = [at for at, other in enumerate(self._changes) if other.at == change.at and other.kind == change.kind]
        return same[0] if same else self._nearest(change.at)

    def _nearest(self, at: float) -> int:
        return min(range(len(self._changes)), key=lambda place: abs(self._changes[place].at - at), default=0)

    def select(self, at: float) -> None:
        """Stand on what happened then."""
        self.feed()
        self._go(self._nearest(at))

    def move(self, how: Move) -> None:
        """Move the cursor from change to change."""
        far, page = len(self._changes), max(1, self.size.height - 2)
        steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "first": -far, "last": far}
        self._go(self._cursor + steps.get(how, 0))

    def _go(self, place: int) -> None:
        self._cursor = max(0, min(len(self._changes) - 1, place))
        self._follow()
        self.redraw()

    def _follow(self) -> None:
        """Bring all rows of what is under the cursor into view, the first of them at least."""
        room = max(1, self.size.height - 1)
        rows = [row for row, (place, _) in enumerate(self._rows) if place == self._cursor] or [0]
        self._up = max(0, min(self._up, len(self._rows) - room))
        self._up = min(max(self._up, rows[-1] + 1 - room), rows[0])

    def on_click(self, event: events.Click) -> None:
        """Stand on a line; twice goes to its moment."""
        row = self._up + event.y - 1
        if event.y < 1 or row >= len(self._rows):
            return
        change = self._changes[self._rows[row][0]]
        self.post_message(self.Chosen())
        self.active = True
        self.feed()
        self._go(self._place_of(change))
        if event.chain == 2:
            self.post_message(self.Entered())

    def text(self) -> str:
        """All lines, to be copied."""
        return "\n".join(
            " ".join(filter(None, (clock(change.at), change.node, MARKS[change.kind].label, change.text)))
            for change in self._changes
        )

    # --- drawing -------------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Lay out for the new size at once."""
        super().on_resize()
        self.feed()

    def paint(self, y: int, width: int) -> Strip:
        """A title, then one change a line."""
        if y == 0:
            return self._title(width)
        row = self._up + y - 1
        if row >= len(self._rows):
            text = "nothing yet" if y == 1 else ""
            return strip_of([(f" {text}", Tone.DIM)], width, self.ink)
        place, pieces = self._rows[row]
        if not self.active:
            return strip_of(pieces, width, self.ink)
        here, shown = place == self._cursor, self.scene.timeline.at
        if shown is not None and self._changes[place].at > shown:
            pieces = [(text, Tone.DIM) for text, _ in pieces]
        first = here and (row == 0 or self._rows[row - 1][0] != place)
        edge = ("▸" if first else " ", Tone.ACCENT)
        head, tone = pieces[0]
        return strip_of([edge, (head[1:], tone), *pieces[1:]], width, self.ink, Ground.CURSOR if here else Ground.PLAIN)

    def _title(self, width: int) -> Strip:
        title = " what happened, the last of each kind " if self._left_out else " what happened "
        keys = "↑ ↓, Enter shows that moment, Esc leaves" if self.active else "H"
        hidden = f" {self._hidden:,} of hangtop's own hidden ─" if self._hidden else ""
        for right in (f"{hidden} {keys} ─", f" {keys} ─", " Enter shows it ─" if self.active else "", ""):
            line = width - cells(title) - cells(right)
            if line >= 0:
                break
        pieces = [(title, Tone.ACCENT if self.active else Tone.DIM), ("─" * max(0, line) + right, Tone.DIM)]
        return strip_of(pieces, width, self.ink)


def _laid(changes: Sequence[Change], width: int, height: int | None) -> list[Row]:
    """A line each; where lines are left over, more of what is longer, the newest first. Without a height: all."""
    rows: list[Row] = []
    spare = len(changes) * width if height is None else height - len(changes)
    for place, change in enumerate(changes):
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
        rows.append((place, [*head, (parts[0], Tone.TEXT)]))
        rows += [(place, [(" " * used, Tone.TEXT), (part, Tone.TEXT)]) for part in parts[1:]]
    return rows
