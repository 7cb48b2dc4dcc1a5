"""Who waits for whom as boxes: the verdict's own edges, the culprit heavy and at the left; a cursor goes about."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import of_several, ranks_text
from tui.looks.text import cells, wrap
from tui.looks.theme import Ground, Ink, Tone
from tui.scene import Scene
from tui.waits.canvas import DrawnPart, Patch, patches
from tui.waits.drawing import Drawing, drawing
from tui.waits.levels import FoldedBox, labels_of, letter_of
from tui.waits.tree import tree
from tui.widgets.lines import Lines, Move, Piece, strip_of

NOBODY = "nobody waits for anybody, as far as is known"
_TONES = {
    DrawnPart.NOTHING: Tone.TEXT,
    DrawnPart.ARROW: Tone.DIM,
    DrawnPart.HEAVY_ARROW: Tone.BAD,
    DrawnPart.LABEL: Tone.TEXT,
    DrawnPart.BORDER: Tone.DIM,
    DrawnPart.TEXT: Tone.TEXT,
}
_Across = Literal["left", "right"]


class WaitMap(Lines):
    """The picture under a title. Where it is larger than its room, it follows the cursor."""

    DEFAULT_CSS = """
    WaitMap { scrollbar-size: 0 0; overflow: hidden; }
    """

    class Chosen(Message):
        """A box was clicked."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="waitmap")
        self.scene = scene
        self.active = False
        """Whether the cursor is here."""
        self._cursor = 0
        self._from: tuple[tuple[WaitBox, ...], int, int] = ((), 0, 0)
        self._drawing = Drawing(0, 0, (), ())
        self._rows: list[list[Patch]] = []
        self._tree = False
        """Whether boxes stand below each other, a line or two each: columns had no room."""
        self._left = self._up = 0
        """Cells and lines of the picture that are out of sight."""
        self._told: list[list[Piece]] = []

    def feed(self) -> None:
        """Take the verdict's boxes and draw."""
        width, height = self.size.width - 2, self.size.height - 1
        wanted = self.scene.waits, width, height
        if wanted[1:] != self._from[1:] or wanted[0] is not self._from[0]:
            known = self.box
            self._from = wanted
            self._draw(max(1, width), max(3, height))
            self._cursor = self._place_of(known)
            self._follow()
        self._tell()
        self.redraw()

    def _draw(self, width: int, height: int) -> None:
        """Columns of boxes; where texts are cut or the chain is too long for that, a tree."""
        names = self.scene.names
        boxes = tuple(replace(box, nodes=tuple(names.all(box.nodes))) for box in self.scene.waits)
        self._drawing = drawing(boxes, width, height)
        fits = self._drawing.width <= width and self._drawing.height <= height
        self._tree = not fits or (self._drawing.cut and len(boxes) <= height)
        if self._tree:
            self._drawing, self._rows = tree(boxes, width, height)
        else:
            self._rows = patches(self._drawing)

    def _place_of(self, known: FoldedBox | None) -> int:
        """Where a box of the picture before is now: by its first rank."""
        boxes = self._drawing.boxes
        with_it = [at for at, drawn in enumerate(boxes) if known and known.ranks and known.ranks[0] in drawn.box.ranks]
        return with_it[0] if with_it else 0

    @property
    def box(self) -> FoldedBox | None:
        """The box under the cursor."""
        boxes = self._drawing.boxes
        return boxes[self._cursor].box if self._cursor < len(boxes) else None

    def boxes(self) -> tuple[WaitBox, ...]:
        """The verdict's boxes that the one under the cursor stands for."""
        box = self.box
        return () if box is None else tuple(self._from[0][place] for place in box.places)

    def select(self, first_rank: int) -> None:
        """Stand on the box with a rank."""
        for at, drawn in enumerate(self._drawing.boxes):
            if first_rank in drawn.box.ranks:
                self._go(at)

    # --- moving --------------------------------------------------------------------------------------------------

    def move(self, how: Move) -> None:
        """Move from box to box: across the columns, or up and down in one."""
        boxes = self._drawing.boxes
        if not boxes:
            return
        here = boxes[self._cursor]
        if self._tree:
            self._go(self._in_tree(how))
            return
        if how in ("left", "right"):
            beside = [at for at, each in enumerate(boxes) if (each.x < here.x if how == "left" else each.x > here.x)]
            near = {"left": max, "right": min}[how]((boxes[at].x for at in beside), default=here.x)
            column = [at for at in beside if boxes[at].x == near]
            if column:
                self._go(min(column, key=lambda at: abs(boxes[at].y - here.y)))
            return
        column = [at for at, each in enumerate(boxes) if each.x == here.x]
        place = column.index(self._cursor)
        steps = {"up": -1, "down": 1}
        if how in steps:
            self._go(column[max(0, min(len(column) - 1, place + steps[how]))])
        elif how in ("first", "page_up"):
            self._go(0 if how == "first" else column[0])
        else:
            self._go(len(boxes) - 1 if how == "last" else column[-1])

    def _in_tree(self, how: Move) -> int:
        """Up and down from line to line; to the left whom a box waits for, to the right who waits for it."""
        places, at = [each.box.places[0] for each in self._drawing.boxes], self._cursor
        waits = [self._from[0][place].waits_for for place in places]
        last, page = len(places) - 1, max(1, self._from[2] - 1)
        if how == "left":
            return next((other for other in range(at, -1, -1) if places[other] in waits[at]), at)
        if how == "right":
            return next((other for other in range(at, last + 1) if places[at] in waits[other]), at)
        steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "first": -last, "last": last}
        return max(0, min(last, at + steps[how]))

    def _go(self, at: int) -> None:
        self._cursor = at
        self._follow()
        self._tell()
        self.redraw()

    def _follow(self) -> None:
        """Bring the box under the cursor into view."""
        width, height = max(1, self._from[1]), max(1, self._from[2])
        if self._cursor >= len(self._drawing.boxes):
            self._left = self._up = 0
            return
        box = self._drawing.boxes[self._cursor]
        self._left = max(0, min(self._left, box.x, max(0, self._drawing.width - width)))
        self._left = max(self._left, min(box.x, box.x + box.width - width))
        self._up = max(0, min(self._up, box.y, max(0, self._drawing.height - height)))
        self._up = max(self._up, min(box.y, box.y + box.height - height))

    # --- drawing -------------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Lay out for the new size at once."""
        super().on_resize()
        self.feed()

    def paint(self, y: int, width: int) -> Strip:
        """A title, then the picture."""
        if y == 0:
            return self._title(width)
        if not self._rows:
            return strip_of([(f"  {NOBODY}" if y == 1 else "", Tone.DIM)], width, self.ink)
        at = y - 1 + self._up
        if at >= len(self._rows):
            told = y - len(self._rows) - 2
            return strip_of(self._told[told] if 0 <= told < len(self._told) else [], width, self.ink)
        ink, plain = self.ink, self.ink.of(Tone.TEXT)
        segments = [Segment(" ", plain)]
        segments += [Segment(patch.text, self._style(ink, patch)) for patch in self._rows[at]]
        # more picture than room: what is out of sight is cut off on both sides
        strip = Strip(segments).crop(self._left, self._left + width)
        return strip.adjust_cell_length(width, plain)

    def _tell(self) -> None:
        """What there was no room for in the box under the cursor."""
        width, lines = max(20, self._from[1] - 3), list[list[Piece]]()
        for box in self.boxes() if self.active and not self._tree else ():
            ranks, nodes = ranks_text(box.ranks), folded_names(box.nodes)
            head = f"{ranks}{f' on {nodes}' if nodes else ''}: {of_several(box.doing, len(box.ranks))}"
            lines += [[(f" {text}", Tone.BAD if box.blamed else Tone.STRONG)] for text in wrap(head, width)]
            for other, label in zip(box.waits_for, labels_of(box), strict=False):
                wait = of_several("waits", len(box.ranks))
                whom = f"  {wait} for {letter_of(other)}, {ranks_text(self._from[0][other].ranks)}"
                lines += [[(f" {text}", Tone.TEXT)] for text in wrap(whom + (f": {label}" if label else ""), width)]
        self._told = lines

    def _style(self, ink: Ink, patch: Patch) -> Style:
        blamed = patch.box >= 0 and self._drawing.boxes[patch.box].box.blamed
        here = self.active and patch.box == self._cursor
        if patch.part is DrawnPart.BORDER and here:
            return ink.of(Tone.ACCENT)
        if patch.part is DrawnPart.TEXT and blamed:
            return ink.alarm[2]
        if patch.part is DrawnPart.TEXT and here:
            return ink.of(Tone.STRONG, Ground.CURSOR)
        tone = Tone.BAD if blamed else _TONES[patch.part]
        if tone is Tone.BAD and ink.of(tone).underline:
            tone = Tone.STRONG  # what tells alarms apart without colours is no use to lines
        return ink.of(tone)

    def _title(self, width: int) -> Strip:
        verdict = self.scene.session.verdict
        left: list[Piece] = [(" who waits for whom ", Tone.ACCENT if self.active else Tone.DIM)]
        hidden = self._drawing.width > self._from[1] or self._drawing.height > self._from[2]
        keys = "arrows, Enter opens, Esc leaves" if self.active else "g"
        right = f"{' more than fits ─' if hidden else ''} {keys} ─"
        if verdict is not None and verdict.names_nobody:
            left.append(("nobody is surely the odd one ", Tone.WARN))
        used = sum(cells(text) for text, _ in left)
        room = width - used - cells(right)
        if room < 0:
            return strip_of([*left, ("─" * max(0, width - used), Tone.DIM)], width, self.ink)
        return strip_of([*left, ("─" * room, Tone.DIM), (right, Tone.DIM)], width, self.ink)

    # --- mouse ---------------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """Stand on a box; twice opens it."""
        x, y = event.x - 1 + self._left, event.y - 1 + self._up
        for at, box in enumerate(self._drawing.boxes):
            if box.x <= x < box.x + box.width and box.y <= y < box.y + box.height:
                self.post_message(self.Chosen())
                self._go(at)
                if event.chain == 2:
                    self.post_message(self.Entered())
