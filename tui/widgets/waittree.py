"""Who waits for whom: an item for each box of the verdict, below the one that it waits for."""

from __future__ import annotations

from hangtop.diagnosis.finding import WaitBox
from tui.looks.theme import Colour
from tui.view_model import ViewModel
from tui.waits import wait_lines
from tui.widgets.itemlist import Item, ItemList
from tui.widgets.lines import Move


class WaitTree(ItemList):
    """The tree under a title."""

    TITLED = WRAPPED = True

    def __init__(self, model: ViewModel) -> None:
        super().__init__("waits", "nobody waits for anybody, as far as is known")
        self.model = model
        self._boxes: tuple[WaitBox, ...] | None = None
        self._parents: list[int] = []

    def draw(self) -> None:
        """Take the verdict's boxes and draw."""
        if self._boxes is self.model.waits:
            self.redraw()
            return
        self._boxes = self.model.waits
        found, most = wait_lines(self._boxes, self.model.names), max(3, self.room // 3)
        places = [line.place for line in found]
        self._parents = [places.index(line.parent) if line.parent >= 0 else place for place, line in enumerate(found)]
        self.feed([
            # of long chains only the last branches are seen
            Item(
                ([(line.head[-most:], Colour.DIM), (line.text, Colour.BAD if line.blamed else Colour.TEXT)],),
                frozenset(self._boxes[line.place].ranks if line.place >= 0 else ()),
                line.place,
                below=line.on[-most:],
            )
            for line in found
        ])  # fmt: skip

    @property
    def box(self) -> WaitBox | None:
        """The verdict's box under the cursor."""
        item, boxes = self.current, self.model.waits
        return boxes[item.key] if item and isinstance(item.key, int) and 0 <= item.key < len(boxes) else None

    def move(self, how: Move) -> None:
        """Up and down from line to line; to the left whom a box waits for, to the right who waits for it."""
        here = self.cursor
        if how == "left":
            self.go(self._parents[here] if self._parents else 0)
        elif how == "right":
            self.go(next((at for at, up in enumerate(self._parents) if up == here and at != here), here))
        else:
            super().move(how)

    def title(self) -> tuple[str, str]:
        """Whether nobody is surely the odd one, and which keys lead here."""
        verdict = self.model.session.verdict
        nobody = "nobody is surely the odd one " if verdict is not None and verdict.names_nobody else ""
        keys = "arrows, Enter opens, Esc leaves" if self.has_focus else "g"
        more = " more than fits ─" if self.lines > self.size.height else ""
        return f" who waits for whom {nobody}", f"{more} {keys} ─"
