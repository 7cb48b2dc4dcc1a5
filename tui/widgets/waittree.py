"""Who waits for whom: a line a box of the verdict, each below the one that it waits for; a cursor goes about."""

from __future__ import annotations

from collections.abc import Hashable

from textual import events
from textual.strip import Strip

from hangtop.diagnosis.finding import WaitBox
from tui.looks.text import cells, wrap
from tui.looks.theme import Ground, Tone
from tui.scene import Scene
from tui.waits import WaitLine, wait_lines
from tui.widgets.lines import Lines, Move, Piece, ruled, strip_of

LEAST = 20
"""Cells of a text, however deep its box lies."""


class WaitTree(Lines):
    """The tree under a title."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="waits")
        self.scene = scene
        self._lines: list[WaitLine] = []
        self._from: Hashable = None
        self._rows: list[tuple[int, list[Piece]]] = []
        """Lines on the screen: place among ``_lines``, and what is written."""
        self._cursor = 0

    def feed(self) -> None:
        """Take the verdict's boxes and draw."""
        wanted = id(self.scene.waits), self.size.width
        if wanted != self._from:
            known = self.box
            self._from = wanted
            self._lines = wait_lines(self.scene.waits, self.scene.names)
            self._rows = [(place, row) for place, line in enumerate(self._lines) for row in self._laid(line)]
            self.resize_to(1 + len(self._rows))
            self.select(known.ranks[0] if known is not None and known.ranks else -1)
        self.redraw()

    def resized(self) -> None:
        """Break the lines for this width."""
        self.feed()

    def _laid(self, line: WaitLine) -> list[list[Piece]]:
        tone = Tone.BAD if line.blamed else Tone.TEXT
        most = max(3, self.room // 3)  # of long chains only the last branches are seen
        head, on = line.head[-most:], line.on[-most:]
        texts = wrap(line.text, max(LEAST, self.room - cells(on) - 2))
        return [[(on if at else head, Tone.DIM), (text, tone)] for at, text in enumerate(texts)]

    @property
    def lines(self) -> int:
        """Lines that it fills, with its title."""
        return 1 + len(self._rows)

    @property
    def box(self) -> WaitBox | None:
        """The verdict's box under the cursor."""
        place = self._lines[self._cursor].place if self._cursor < len(self._lines) else -1
        boxes = self.scene.waits
        return boxes[place] if 0 <= place < len(boxes) else None

    def select(self, rank: int) -> None:
        """Stand on the box with a rank, else on the first."""
        place = self.scene.waiting.place_of.get(rank, -1)
        self._go(next((at for at, line in enumerate(self._lines) if line.place == place), 0))

    def move(self, how: Move) -> None:
        """Up and down from line to line; to the left whom a box waits for, to the right who waits for it."""
        if not self._lines:
            return
        here, last, page = self._lines[self._cursor], len(self._lines) - 1, max(1, self.size.height - 2)
        if how == "left":
            self._go(next((at for at, line in enumerate(self._lines) if line.place == here.parent), self._cursor))
        elif how == "right":
            self._go(next((at for at, line in enumerate(self._lines) if line.parent == here.place), self._cursor))
        else:
            steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "first": -last, "last": last}
            self._go(max(0, min(last, self._cursor + steps[how])))

    def _go(self, at: int) -> None:
        self._cursor = at
        rows = [row for row, (place, _) in enumerate(self._rows) if place == at] or [0]
        self.bring(rows[-1], margin=1)
        self.bring(rows[0], margin=1)
        self.redraw()

    def paint(self, y: int, width: int) -> Strip:
        """A title, then the tree."""
        if y == 0:
            return strip_of(self._title(width), width, self.ink)
        row = self.top + y - 1
        if row >= len(self._rows):
            told = "  nobody waits for anybody, as far as is known" if y == 1 and not self._rows else ""
            return strip_of([(told, Tone.DIM)], width, self.ink)
        place, pieces = self._rows[row]
        here = self.has_focus and place == self._cursor
        edge = ("▌" if here else " ", Tone.ACCENT)
        return strip_of([edge, *pieces], width, self.ink, Ground.CURSOR if here else Ground.PLAIN)

    def _title(self, width: int) -> list[Piece]:
        verdict = self.scene.session.verdict
        nobody = "nobody is surely the odd one " if verdict is not None and verdict.names_nobody else ""
        keys = "arrows, Enter opens, Esc leaves" if self.has_focus else "g"
        more = " more than fits ─" if len(self._rows) >= self.size.height else ""
        tone = Tone.ACCENT if self.has_focus else Tone.DIM
        return ruled(f" who waits for whom {nobody}", f"{more} {keys} ─", width, tone)

    def on_focus(self) -> None:
        """The cursor is here now."""
        self.redraw()

    def on_blur(self) -> None:
        """The cursor is elsewhere now."""
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Stand on a box; twice opens it."""
        row = self.top + event.y - 1
        if event.y and row < len(self._rows):
            self._go(self._rows[row][0])
            if event.chain == 2:
                self.post_message(self.Entered())
