"""What happened, the newest first; with the cursor in it Enter shows the moment of a line."""

from __future__ import annotations

from hangtop.session.state.changes import Change
from tui.logs.changes import chosen
from tui.looks.format import clock
from tui.looks.signs import change_sign, is_outcome
from tui.looks.theme import Colour
from tui.view_model import ViewModel
from tui.widgets.itemlist import Item, ItemList
from tui.widgets.lines import Piece

ALL = 4096
"""Lines that the cursor can go through."""


class Happened(ItemList):
    """What happened to the job; what matters to hangtop alone is not told."""

    TITLED = WRAPPED = True

    def __init__(self, model: ViewModel) -> None:
        super().__init__("changes", "nothing yet")
        self.model = model
        self.changes: list[Change] = []
        self._known: tuple[object, ...] = ()

    def draw(self) -> None:
        """Take the latest changes and draw; the cursor goes through what came after the moment shown, too."""
        timeline = self.model.timeline
        changes = timeline.head.state.changes if self.has_focus else self.model.state.changes
        known = len(changes), changes.newest, self.size, self.has_focus, timeline.at
        if known == self._known:
            return
        before = self.change
        self._known = known
        most = ALL if self.has_focus else max(1, self.size.height - 1)
        self.changes = chosen(changes, most, self.model.names, self.model.state.started)
        self.feed([self._item(change, timeline.at) for change in self.changes])
        self.select(before.at if before else timeline.at)

    def resized(self) -> None:
        """Another number of lines fits."""
        super().resized()
        self._known = ()

    def _item(self, change: Change, shown: float | None) -> Item:
        """One that came after the moment ``shown`` is dim."""
        sign = change_sign(change.kind)
        line: list[Piece] = [
            (f"{clock(change.at, millis=False)} ", Colour.DIM),
            (f"{sign.glyph} ", sign.colour),
            (f"{change.node} " if change.node else "", Colour.INFO),
            (f"{sign.label} " if is_outcome(change.kind) else "", sign.colour),
            (change.text, Colour.TEXT),
        ]
        late = shown is not None and change.at > shown
        return Item(([(text, Colour.DIM) for text, _ in line] if late else line,), key=change)

    @property
    def change(self) -> Change | None:
        """What is told under the cursor."""
        return self.changes[self.cursor] if self.cursor < len(self.changes) else None

    def select(self, at: float | None) -> None:
        """Stand on what happened then; beside other lists the newest is shown."""
        near = sorted(range(len(self.changes)), key=lambda place: abs(self.changes[place].at - (at or 0.0)))
        self.go(near[0] if at is not None and self.has_focus and near else 0)

    def on_focus(self) -> None:
        """List all that is known."""
        self.draw()

    def on_blur(self) -> None:
        """List what there is room for."""
        self.draw()

    def text(self) -> str:
        """All lines, to be copied."""
        return "\n".join(
            " ".join(filter(None, (clock(one.at), one.node, change_sign(one.kind).label, one.text)))
            for one in self.changes
        )

    def title(self) -> tuple[str, str]:
        """Which keys lead here, or what they do."""
        return " what happened ", f" {'↑ ↓, Enter shows that moment, Esc leaves' if self.has_focus else 'H'} ─"
