"""A panel of blocks of ranks under a line of totals; a filter keeps blocks of which a rank passes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from textual.app import ComposeResult

from tui.ordering.filter import Value, parse
from tui.panels.base import Panel
from tui.scene import Scene
from tui.widgets.blocks import Block, Blocks
from tui.widgets.lines import Bar, Lines


class Seen(NamedTuple):
    """A rank of a block."""

    rank: int
    node: str
    text: str
    """All of the block."""


FIELDS: dict[str, Callable[[Seen], Value]] = {"rank": lambda seen: seen.rank, "node": lambda seen: seen.node}


class BlockFilter:
    """Lets everything through until something is set."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._test: Callable[[Seen], bool] | None = None

    def set(self, text: str) -> None:
        """Take a filter. Raises :class:`~tui.ordering.filter.FilterError` and changes nothing then."""
        wanted = parse(text)
        self._test = wanted.bind(FIELDS, lambda seen: seen.text) if wanted.terms else None

    def kept(self, blocks: Sequence[Block]) -> list[Block]:
        """The blocks that pass."""
        if self._test is None:
            return list(blocks)
        nodes = {row.number: row.node.name for row in self._scene.ranks}
        return [block for block in blocks if self._passes(block, nodes, self._test)]

    def _passes(self, block: Block, nodes: dict[int, str], test: Callable[[Seen], bool]) -> bool:
        text = "\n".join("".join(text for text, _ in line) for line in block.lines)
        return any(test(Seen(rank, nodes.get(rank, ""), text)) for rank in block.ranks)


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

    @property
    def main(self) -> Lines:
        """The blocks."""
        return self.view

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
