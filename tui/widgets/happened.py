"""What happened, the newest first; with the cursor in it Enter shows the moment of a line."""

from __future__ import annotations

from textual import events
from textual.strip import Strip

from hangtop.session.state.changes import Change
from tui.logs.changes import chosen
from tui.looks.format import clock
from tui.looks.signs import change_sign, is_outcome
from tui.looks.text import cells, harmless, wrap
from tui.looks.theme import Ground, Tone
from tui.scene import Scene
from tui.widgets.lines import Lines, Move, Piece, ruled, strip_of

ALL = 4096
"""Lines that the cursor can go through."""
LEAST = 20
"""Cells beside a change's time in which it is worth being wrapped."""


class Happened(Lines):
    """What happened to the job; what matters to hangtop alone is not told."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="changes")
        self.scene = scene
        self._changes: list[Change] = []
        self._rows: list[tuple[int, list[Piece]]] = []
        """Lines on the screen: place of the change that each tells, and what is written."""
        self._cursor = 0
        self._known: tuple[object, ...] = ()

    def feed(self) -> None:
        """Take the latest changes and draw; the cursor goes through what came after the moment shown, too."""
        timeline = self.scene.timeline
        changes = timeline.head.state.changes if self.has_focus else self.scene.state.changes
        known = len(changes), changes.newest, self.size, self.has_focus, timeline.at
        if known != self._known:
            before = self.current
            self._known = known
            most = ALL if self.has_focus else max(1, self.size.height - 1)
            self._changes = chosen(changes, most, self.scene.names, self.scene.state.started)
            self._rows = [(at, row) for at, change in enumerate(self._changes) for row in self._laid(change)]
            self.resize_to(1 + len(self._rows))
            self._go(self._nearest(before.at if before else timeline.at))
        self.redraw()

    def resized(self) -> None:
        """Lay out for another size."""
        self._known = ()
        self.feed()

    def _laid(self, change: Change) -> list[list[Piece]]:
        sign = change_sign(change.kind)
        head: list[Piece] = [
            (f"{clock(change.at, millis=False)} ", Tone.DIM),
            (f"{sign.glyph} ", sign.tone),
            (f"{change.node} " if change.node else "", Tone.INFO),
            (f"{sign.label} " if is_outcome(change.kind) else "", sign.tone),
        ]
        used, text = sum(cells(told) for told, _ in head), harmless(change.text)
        room = self.room - 1 - used
        first, *others = wrap(text, room) if room >= LEAST else [text]
        return [[*head, (first, Tone.TEXT)], *([(" " * used, Tone.TEXT), (part, Tone.TEXT)] for part in others)]

    @property
    def current(self) -> Change | None:
        """What is told under the cursor."""
        return self._changes[self._cursor] if self._cursor < len(self._changes) else None

    def _nearest(self, at: float | None) -> int:
        places = range(len(self._changes))
        return 0 if at is None else min(places, key=lambda place: abs(self._changes[place].at - at), default=0)

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
        rows = [row for row, (at, _) in enumerate(self._rows) if at == self._cursor] or [0]
        if self.has_focus:
            self.bring(rows[-1], margin=1)
            self.bring(rows[0], margin=1)
        else:
            self.scroll_to(y=0, animate=False, force=True)
        self.redraw()

    def on_focus(self) -> None:
        """List all that is known."""
        self.feed()

    def on_blur(self) -> None:
        """List what there is room for."""
        self.feed()

    def on_click(self, event: events.Click) -> None:
        """Stand on a line; twice goes to its moment."""
        row = self.top + event.y - 1
        if event.y and row < len(self._rows):
            self._go(self._rows[row][0])
            if event.chain == 2:
                self.post_message(self.Entered())

    def text(self) -> str:
        """All lines, to be copied."""
        return "\n".join(
            " ".join(filter(None, (clock(one.at), one.node, change_sign(one.kind).label, one.text)))
            for one in self._changes
        )

    def paint(self, y: int, width: int) -> Strip:
        """A title, then one change a line."""
        if y == 0:
            keys = "↑ ↓, Enter shows that moment, Esc leaves" if self.has_focus else "H"
            tone = Tone.ACCENT if self.has_focus else Tone.DIM
            return strip_of(ruled(" what happened ", f" {keys} ─", width, tone), width, self.ink)
        row = self.top + y - 1
        if row >= len(self._rows):
            return strip_of([(" nothing yet" if y == 1 else "", Tone.DIM)], width, self.ink)
        place, pieces = self._rows[row]
        here, shown = self.has_focus and place == self._cursor, self.scene.timeline.at
        if shown is not None and self._changes[place].at > shown:
            pieces = [(text, Tone.DIM) for text, _ in pieces]
        edge = ("▌" if here else " ", Tone.ACCENT)
        return strip_of([edge, *pieces], width, self.ink, Ground.CURSOR if here else Ground.PLAIN)
