"""The verdict's boxes in columns: whoever waits for nobody first, to the right whoever waits for them, and so on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.groups.groups import WHOLE_NAME
from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import count, ranks_text

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class FoldedBox:
    """One box of the verdict, or several that there is no room for."""

    places: tuple[int, ...]
    """Among the verdict's boxes."""
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    doing: str
    blamed: bool
    also: tuple[str, ...] = ()
    """Waits for boxes that no arrow can lead to: of the same column, or beyond the next one."""
    waits: bool = False
    """Whether an arrow leads from it."""

    @property
    def letter(self) -> str:
        """What it is called, here and in the cells of the overview."""
        return letter_of(self.places[0]) if len(self.places) == 1 else "…"


@dataclass(frozen=True, slots=True)
class FoldedArrow:
    """From a box to one in the column to its left."""

    waiter: int
    waited: int
    label: str


@dataclass(frozen=True, slots=True)
class Folded:
    """Boxes by column. Arrows lead from a column to its left neighbour."""

    boxes: tuple[FoldedBox, ...]
    columns: tuple[tuple[int, ...], ...]
    """Places among ``boxes``, from top to bottom."""
    arrows: tuple[FoldedArrow, ...]


def letter_of(place: int) -> str:
    """Name of a box of the verdict by its place."""
    return LETTERS[place] if place < len(LETTERS) else "+"


def levels_of(boxes: Sequence[WaitBox]) -> list[int]:
    """For each box how many others lie between it and one that waits for nobody, by the longest way.

    Ranks that wait for one another in a circle have no end: the circle is cut where it is come back to, which is at
    the box that is named first.
    """
    levels: dict[int, int] = {}
    for start in range(len(boxes)):
        if start in levels:
            continue
        way = [(start, list(boxes[start].waits_for))]
        open_places = {start}
        while way:
            place, left = way[-1]
            if left:
                other = left.pop()
                if other not in levels and other not in open_places:
                    way.append((other, list(boxes[other].waits_for)))
                    open_places.add(other)
                continue
            ended = [levels[other] for other in boxes[place].waits_for if other in levels]
            levels[place] = 1 + max(ended, default=-1)
            open_places.discard(place)
            way.pop()
    return [levels[place] for place in range(len(boxes))]


def fold(boxes: Sequence[WaitBox], most: int) -> Folded:
    """Lay boxes out in columns of ``most`` at most: blamed ones and those waited for stay, the others become one."""
    levels = levels_of(boxes)
    waited = {other for box in boxes for other in box.waits_for}
    columns: list[list[FoldedBox]] = [[] for _ in range(max(levels, default=-1) + 1)]
    for level, column in enumerate(columns):
        places = [place for place in range(len(boxes)) if levels[place] == level]
        places.sort(key=lambda place: _matters(boxes, waited, place))
        kept = places if len(places) <= most else places[: max(0, most - 1)]
        column += [one_box(boxes, place) for place in kept]
        if rest := places[len(kept) :]:
            column.append(_several(boxes, rest))
    place_of = {place: (level, at) for level, column in enumerate(columns) for at, box in enumerate(column)
                for place in box.places}  # fmt: skip
    return _joined(boxes, columns, place_of)


def _joined(
    boxes: Sequence[WaitBox], columns: Sequence[Sequence[FoldedBox]], place_of: Mapping[int, tuple[int, int]]
) -> Folded:
    """Columns, each ordered by what its boxes lead to, and the arrows between them."""
    ordered: list[tuple[int, ...]] = []
    made: list[FoldedBox] = []
    number: dict[tuple[int, int], int] = {}
    arrows: dict[tuple[int, int], str] = {}
    for level, column in enumerate(columns):
        leads: dict[int, dict[int, str]] = {}
        also: dict[int, list[str]] = defaultdict(list)
        for at, box in enumerate(column):
            leads[at] = {}
            for other, label in _edges(boxes, box.places):
                key = place_of[other]
                if key[0] == level - 1:
                    leads[at].setdefault(number[key], label)
                elif key != (level, at):
                    told = f"also for {letter_of(other)}{f': {label}' if label else ''}"
                    also[at] += [told] if told not in also[at] else []
        order = sorted(range(len(column)), key=lambda at: (min(leads[at], default=len(made)), at))
        for at in order:
            box = column[at]
            number[level, at] = len(made)
            arrows |= {(len(made), target): label for target, label in leads[at].items()}
            made.append(replace(box, also=tuple(also[at]), waits=bool(leads[at])))
        ordered.append(tuple(number[level, at] for at in order))
    return Folded(
        tuple(made),
        tuple(ordered),
        tuple(FoldedArrow(waiter, waited, label) for (waiter, waited), label in arrows.items()),
    )


def _edges(boxes: Sequence[WaitBox], places: Iterable[int]) -> Iterable[tuple[int, str]]:
    for place in places:
        box = boxes[place]
        yield from zip(box.waits_for, labels_of(box), strict=False)


def labels_of(box: WaitBox) -> list[str]:
    """What is said of each of its edges: collective and number, and the group where that is not the whole job."""
    told = box.operations or (box.operation,) * len(box.waits_for)
    return [label.removesuffix(f" in {WHOLE_NAME}") for label in told]


def doing_of(doing: str, labels: Iterable[str]) -> str:
    """What ranks are at who wait, without what their arrows say: that they wait, and in which collective."""
    text = doing.removeprefix("waits in ")
    operation, at, line = text.partition(" at ")
    return f"at {line}" if at and any(label.partition(" ")[0] == operation for label in labels) else text


def _matters(boxes: Sequence[WaitBox], waited: set[int], place: int) -> tuple[bool, bool, int, int]:
    box = boxes[place]
    return not box.blamed, place not in waited, -len(box.ranks), place


def one_box(boxes: Sequence[WaitBox], place: int) -> FoldedBox:
    """A box of the verdict by itself."""
    box = boxes[place]
    return FoldedBox((place,), box.ranks, box.nodes, box.doing, box.blamed)


def _several(boxes: Sequence[WaitBox], places: Sequence[int]) -> FoldedBox:
    every = [boxes[place] for place in places]
    return FoldedBox(
        tuple(places),
        tuple(sorted({rank for box in every for rank in box.ranks})),
        tuple(sorted({node for box in every for node in box.nodes})),
        f"at {count(len(every), 'more point')}",
        any(box.blamed for box in every),
    )


def ranks_within(ranks: Sequence[int], width: int) -> str:
    """``rank 3``, ``ranks 0-2,5``; how many there are where that takes more than ``width`` characters."""
    text = ranks_text(ranks)
    return text if len(text) <= width else count(len(ranks), "rank")


def nodes_within(nodes: Sequence[str], width: int) -> str:
    """``node3``, ``node[0-3,7]``; how many there are where that takes more than ``width`` characters."""
    text = folded_names(nodes)
    return text if len(text) <= width or len(nodes) < 2 else count(len(nodes), "node")
