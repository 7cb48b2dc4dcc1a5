"""Blocks of lines, one of them selected: groups of stacks, branches of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from textual import events
from textual.strip import Strip

from tui.looks.format import plural
from tui.looks.text import line_of
from tui.looks.theme import Ground, Tone
from tui.widgets.lines import Lines, Move, Piece, strip_of


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong to some ranks; the first is the heading."""

    ranks: frozenset[int]
    lines: tuple[list[Piece], ...]
    needed: int
    """Lines from the heading on that should be seen even when room is short."""
    name: str = ""
    """Tells it from other blocks of the same ranks."""
    joined: bool = False
    """It follows the block before without an empty line."""


class Blocks(Lines):
    """Draws blocks below each other, shortened when they would not fit, with a cursor on one."""

    def __init__(self, empty: str) -> None:
        super().__init__(id="blocks")
        self.empty = empty
        self.cursor = 0
        self.marked: set[frozenset[int]] = set()
        self._blocks: Sequence[Block] = ()
        self._lines: list[tuple[int, list[Piece]]] = []
        self._starts: list[int] = []

    def feed(self, blocks: Sequence[Block]) -> None:
        """Take the blocks; the cursor stays on the block with the same ranks."""
        if blocks is not self._blocks:
            kept = self.current
            self._blocks = blocks
            same = [] if kept is None else [at for at, block in enumerate(blocks) if _same(block, kept)]
            self.cursor = same[0] if same else max(0, min(self.cursor, len(blocks) - 1))
        self._lay_out()
        self.redraw()

    def resized(self) -> None:
        """Lay out for another size."""
        self._lay_out()

    def _lay_out(self) -> None:
        """All lines when they fit, else of every block what is needed and how much is left out."""
        whole = sum(len(block.lines) + (not block.joined) for block in self._blocks) - 1 <= self.size.height
        self._lines, self._starts = [], []
        for place, block in enumerate(self._blocks):
            shown = block.lines if whole or place == self.cursor else block.lines[: block.needed]
            if place and whole and not block.joined:
                self._lines.append((-1, []))
            self._starts.append(len(self._lines))
            self._lines += [(place, line) for line in shown]
            left_out = len(block.lines) - len(shown)
            if left_out:
                self._lines.append((place, [(f"    … {plural(left_out, 'line')} more", Tone.DIM)]))
        self.resize_to(len(self._lines))

    @property
    def current(self) -> Block | None:
        """The block under the cursor."""
        return self._blocks[self.cursor] if self.cursor < len(self._blocks) else None

    def select_rank(self, rank: int) -> None:
        """Stand on the smallest block with this rank."""
        with_it = [(len(block.ranks), place) for place, block in enumerate(self._blocks) if rank in block.ranks]
        if with_it:
            self.go(min(with_it)[1])

    def go(self, place: int) -> None:
        """Stand on a block."""
        if not self._blocks:
            return
        self.cursor = max(0, min(len(self._blocks) - 1, place))
        self._lay_out()
        first = self._starts[self.cursor]
        last = (self._starts[self.cursor + 1] if self.cursor + 1 < len(self._starts) else len(self._lines)) - 1
        self.bring(last)
        self.bring(first)
        self.redraw()

    def move(self, how: Move) -> None:
        """Move the cursor from block to block."""
        far = len(self._blocks)
        page = max(1, self.size.height // 6)
        steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "first": -far, "last": far}
        self.go(self.cursor + steps.get(how, 0))

    def toggle_mark(self) -> None:
        """Mark the block, and go on to the next."""
        if (block := self.current) is not None:
            self.marked ^= {block.ranks}
            self.move("down")

    def chosen(self) -> set[int]:
        """Ranks of the marked blocks that are still there, or of the one under the cursor."""
        marked = [block for block in self._blocks if block.ranks in self.marked]
        here = [block for block in (self.current,) if block is not None]
        return {rank for block in marked or here for rank in block.ranks}

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        at = self.top + y
        if not self._blocks:
            return strip_of([(line_of(self.empty, width, y - 1), Tone.DIM)], width, self.ink)
        if at >= len(self._lines):
            return strip_of([], width, self.ink)
        place, pieces = self._lines[at]
        here = place == self.cursor
        heading = place >= 0 and at == self._starts[place]
        marked = place >= 0 and self._blocks[place].ranks in self.marked
        ground = Ground.CURSOR if here and heading else Ground.PLAIN
        edge = "◆" if marked and heading else "▌" if here else " "
        first = Segment(edge, self.ink.of(Tone.ACCENT, ground))
        return Strip([first, *strip_of(pieces, width - 1, self.ink, ground)], width)

    def on_click(self, event: events.Click) -> None:
        """Select a block; twice enters it."""
        at = self.top + event.y
        if at < len(self._lines) and self._lines[at][0] >= 0:
            self.go(self._lines[at][0])
            if event.chain == 2:
                self.post_message(self.Entered())


def _same(one: Block, other: Block) -> bool:
    return (one.ranks, one.name) == (other.ranks, other.name)
