"""A panel of blocks of ranks under a line of totals: what such panels share."""

from __future__ import annotations

from collections.abc import Hashable

from textual.app import ComposeResult

from tui.panels.base import Panel
from tui.panels.block_filter import FIELDS, BlockFilter
from tui.scene import Scene
from tui.widgets.bar import Bar
from tui.widgets.blocks import Block, Blocks


class BlockPanel(Panel):
    """Blocks, a filter of them, and who is in the one under the cursor; what they hold, the panel lays out."""

    EMPTY = ""
    """What to do where there are none."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.bar = Bar()
        self.view = Blocks(self.EMPTY)
        self.filter = BlockFilter(scene)
        self.blocks: list[Block] = []
        self.wanted: int | None = None
        """A rank to stand on as soon as there is a block that has it."""

    def compose(self) -> ComposeResult:
        """The line of totals, then the blocks."""
        yield self.bar
        yield self.view

    def lay_out(self) -> None:
        """Make the blocks of what is known, and draw."""
        raise NotImplementedError

    def stand_where_wanted(self) -> None:
        """Stand on the rank that was wanted before its block was there."""
        if self.wanted is not None:
            self.view.select_rank(self.wanted)
            self.wanted = None

    def set_filter(self, text: str) -> None:
        """Show only blocks with a rank, or with words, that the filter lets through."""
        self.filter.set(text)
        self.query_text = text
        self.lay_out()

    def fields(self) -> list[str]:
        """What a filter of blocks can name."""
        return list(FIELDS)

    def here(self) -> Hashable:
        """A rank of the block under the cursor."""
        block = self.view.current
        return min(block.ranks) if block is not None and block.ranks else None

    def select(self, key: Hashable) -> None:
        """Stand on the block of a rank, now or when it is there."""
        if isinstance(key, int):
            self.wanted = key
            self.view.select_rank(key)

    def node(self) -> str | None:
        """Node of the block's first rank."""
        rank = self.here()
        return next((row.node.name for row in self.scene.ranks if row.number == rank), None)

    def chosen_ranks(self) -> set[int]:
        """Ranks of the marked blocks, or of the one under the cursor."""
        return self.view.chosen()
