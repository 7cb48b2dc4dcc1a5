"""Rectangles and arrows in cells: the terminal and the SVG of the report draw the same ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.phrasing import of_several
from tui.looks.text import CUT, cells, fit, wrap
from tui.waits.levels import Folded, FoldedBox, doing_of, fold, nodes_within, ranks_within

WIDEST = 44
"""Cells of a box, borders included, as long as others need the room; what is longer is wrapped."""
WHOLE = 72
"""The same where there is room to spare."""
EASY = 26
"""Cells of a box of a chain that is too long to be seen whole."""
NARROWEST = 11
LABEL = 30
"""Cells of an arrow's words."""
BARE = 4
"""Cells between two columns whose arrows have no words."""
LINES = 5
"""Lines of text that a box has as a rule."""
MOST = 9
"""The same where there is room."""


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """A box in its place."""

    box: FoldedBox
    x: int
    y: int
    width: int
    texts: tuple[str, ...]
    """Its lines, each of which fits."""
    bare: bool = False
    """Without borders."""

    @property
    def height(self) -> int:
        """Lines, borders included."""
        return len(self.texts) + (0 if self.bare else 2)


@dataclass(frozen=True, slots=True)
class DrawnArrow:
    """Leads from ``points[0]``, at the waiter's left border, to ``points[-1]``, where its head is."""

    points: tuple[tuple[int, int], ...]
    label: str
    label_at: tuple[int, int]
    heavy: bool
    """Ends at a box that is blamed."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is drawn, in a picture of so many cells."""

    width: int
    height: int
    boxes: tuple[DrawnBox, ...]
    arrows: tuple[DrawnArrow, ...]
    cut: bool = False
    """Whether a text had to be cut, or a word broken."""


def drawing(boxes: Sequence[WaitBox], width: int, height: int) -> Drawing:
    """Draw the verdict's boxes in ``width`` × ``height`` cells.

    What is too much for the height is folded; a chain that is too long for the width is drawn all the same, wider.
    Words that are too long for the arrows stand in the boxes, where nothing is cut then.
    """
    if not boxes:
        return Drawing(0, 0, (), ())
    most = max(2, (height + 1) // 4)
    shown = fold(boxes, most)
    found = _drawn(shown, width, height, (True, False))
    if found.cut:
        within = _drawn(shown, width, height, (False,))
        if not within.cut and within.width <= width and within.height <= height:
            return within
    return found


def _drawn(shown: Folded, width: int, height: int, ways: Sequence[bool]) -> Drawing:
    """The picture with words at its arrows or without, whichever of ``ways`` has room first."""
    columns = shown.columns
    gaps = [_gap(shown, level) for level in range(1, len(columns))]
    widths = [min(WIDEST, max(_natural(shown, at) for at in column)) for column in columns]
    widths, between, words = _shrunk(widths, gaps, width, ways)
    widths = _widened(shown, widths, width - sum(between), words)
    lines = next((lines for lines in range(MOST, 1, -1) if _height(columns, lines) <= height), 1)
    placed = _placed(shown, widths, between, lines, words)
    drawn = tuple(placed[at] for at in range(len(shown.boxes)))
    arrows = tuple(_arrows(shown, drawn, words))
    right = max(box.x + box.width for box in drawn)
    cut = any(text.rstrip().endswith(CUT) for text in _every_text(drawn, arrows)) or any(
        cells(word) > widths[level] - 4
        for level, column in enumerate(columns)
        for at in column
        for word in " ".join([_doing(shown, at), *_labels(shown, at, words)]).split()
    )
    return Drawing(right, max(box.y + box.height for box in drawn), drawn, arrows, cut)


def _every_text(boxes: Sequence[DrawnBox], arrows: Sequence[DrawnArrow]) -> Iterator[str]:
    yield from (text for box in boxes for text in box.texts)
    yield from (arrow.label for arrow in arrows)


def _height(columns: Sequence[Sequence[int]], lines: int) -> int:
    return max(len(column) for column in columns) * (lines + 2)


def _natural(shown: Folded, at: int) -> int:
    """As wide as its text in three lines asks for."""
    box, doing = shown.boxes[at], _doing(shown, at)
    nodes = nodes_within(box.nodes, 24)
    who = f"{ranks_within(box.ranks, 24)} · {nodes}" if nodes else ranks_within(box.ranks, 24)
    return max(NARROWEST, 4 + max(cells(who), -(-cells(doing) // 2) + 4, *map(cells, ("", *box.also))))


def _gap(shown: Folded, level: int) -> tuple[int, int]:
    """Cells that arrows from a column need at the least, and with their words."""
    here = [arrow for arrow in shown.arrows if arrow.waiter in shown.columns[level]]
    longest = max((cells(arrow.label) for arrow in here), default=0)
    bare = BARE + 2 * max(0, len({arrow.waited for arrow in here}) - 1)
    return bare, bare + (min(LABEL, longest) + 2 if longest else 0)


def _shrunk(
    widths: list[int], gaps: list[tuple[int, int]], width: int, ways: Sequence[bool]
) -> tuple[list[int], list[int], bool]:
    """Columns made narrower until they fit, cells between them, and whether arrows keep their words."""
    for words in ways:
        least = NARROWEST + (8 if words else 0)
        between = [gap[words] for gap in gaps]
        over = sum(widths) + sum(between) - width
        if over > sum(max(0, each - least) for each in widths) and words:
            continue
        if over > sum(max(0, each - least) for each in widths):
            # to be gone along with the cursor: then it should be easy to read
            return [min(EASY, each) for each in widths], [gap[True] for gap in gaps], True
        made = list(widths)
        while over > 0 and max(made) > least:
            made[made.index(max(made))] -= 1
            over -= 1
        return made, between, words
    raise AssertionError("unreachable: without words there is always a picture")


def _widened(shown: Folded, widths: Sequence[int], width: int, words: bool) -> list[int]:
    """Columns as wide as their texts are without being wrapped, as far as there is room; the narrowest grow first."""
    made, room = list(widths), width - sum(widths)
    wanted = [min(WHOLE, max(_unwrapped(shown, at, words) for at in column)) for column in shown.columns]
    while room > 0 and (narrow := [level for level, want in enumerate(wanted) if made[level] < want]):
        made[min(narrow, key=made.__getitem__)] += 1
        room -= 1
    return made


def _unwrapped(shown: Folded, at: int, words: bool) -> int:
    """Cells in which each text of a box has one line, borders included."""
    box = shown.boxes[at]
    nodes = nodes_within(box.nodes, WHOLE)
    who = f"{ranks_within(box.ranks, WHOLE)} · {nodes}" if nodes else ranks_within(box.ranks, WHOLE)
    return 4 + max(map(cells, (who, _doing(shown, at), *_labels(shown, at, words), *box.also)))


def _labels(shown: Folded, at: int, words: bool) -> list[str]:
    """What a box says because its arrows have no room for it."""
    return [] if words else [arrow.label for arrow in shown.arrows if arrow.waiter == at and arrow.label]


def _placed(
    shown: Folded, widths: Sequence[int], between: Sequence[int], lines: int, words: bool
) -> dict[int, DrawnBox]:
    placed: dict[int, DrawnBox] = {}
    x = 0
    for level, column in enumerate(shown.columns):
        y = 0
        for at in column:
            texts = _texts(shown, at, widths[level] - 4, lines, words)
            placed[at] = DrawnBox(shown.boxes[at], x, y, widths[level], texts)
            y += len(texts) + 2
        x += widths[level] + (between[level] if level < len(between) else 0)
    return placed


def _texts(shown: Folded, at: int, width: int, lines: int, words: bool) -> tuple[str, ...]:
    """Who first, then what they do, then whom else they wait for."""
    box = shown.boxes[at]
    whole = f"{ranks_within(box.ranks, width)} · {nodes_within(box.nodes, width)}"
    if not box.nodes:
        who = [ranks_within(box.ranks, width)]
    elif cells(whole) <= width:
        who = [whole]
    elif lines > 2:
        who = [ranks_within(box.ranks, width), nodes_within(box.nodes, width)]
    else:
        short = f"{ranks_within(box.ranks, 0)} · {nodes_within(box.nodes, 12)}"
        who = [short if cells(short) <= width else ranks_within(box.ranks, width)]
    room = max(0, lines - len(who))
    first = [part for label in _labels(shown, at, words) for part in wrap(label, width)]
    last = [part for text in box.also for part in wrap(text, width)]
    doing = _doing(shown, at)
    told = wrap(doing, width) if doing else []
    if len(first) + len(told) + len(last) > room:  # each of them a line before any has two
        first, last = _labels(shown, at, words), list(box.also)
    first = first[:room]
    kept = told[: max(0 if first else 1, room - len(first) - len(last))]
    if 0 < len(kept) < len(told):
        kept[-1] = f"{kept[-1]}{CUT}" if cells(kept[-1]) < width else fit(f"{kept[-1]}{CUT}", width)
    return tuple(fit(text, width) for text in [*who, *first, *kept, *last][:lines])


def _doing(shown: Folded, at: int) -> str:
    """What its ranks are at; that they wait is what their arrow says."""
    box = shown.boxes[at]
    if not box.waits:
        return of_several(box.doing, len(box.ranks))
    said = doing_of(box.doing, [arrow.label for arrow in shown.arrows if arrow.waiter == at])
    # without its verb it begins with the name of a collective
    return of_several(said, len(box.ranks)) if said.startswith("waits") else said


def _arrows(shown: Folded, drawn: Sequence[DrawnBox], words: bool) -> list[DrawnArrow]:
    """From the first line of a waiter, along a trunk of each box that is waited for, to that one's first line."""
    made: list[DrawnArrow] = []
    for column in shown.columns[:-1]:
        end = max(drawn[at].x + drawn[at].width for at in column)
        waited = [at for at in column if any(arrow.waited == at for arrow in shown.arrows)]
        for lane, target in enumerate(waited):
            trunk, to = end + 2 + 2 * lane, drawn[target]
            for arrow in shown.arrows:
                if arrow.waited != target:
                    continue
                source = drawn[arrow.waiter]
                start, row, last = source.x - 1, source.y + 1, to.y + 1
                corner = ((trunk, row), (trunk, last)) if row != last else ()
                room = start - (end + 2 + 2 * len(waited)) if words else 0
                label = fit(arrow.label, min(room, cells(arrow.label))) if arrow.label and room >= 4 else ""
                at = start - cells(label) - (1 if label else 0)
                made.append(
                    DrawnArrow(((start, row), *corner, (to.x + to.width, last)), label, (at, row), to.box.blamed)
                )
    return made
