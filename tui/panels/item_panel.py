"""A panel of items of ranks under a line of totals."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from textual.app import ComposeResult

from tui.looks.format import plural
from tui.panels.base import Panel
from tui.view_model import ViewModel
from tui.widgets.itemlist import Item, ItemList
from tui.widgets.lines import Bar, Lines


class ItemPanel(Panel):
    """Items, and which ranks are in the one under the cursor; what they hold, the panel lays out."""

    EMPTY = ""
    """What to do where there are none."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self.bar = Bar()
        self.view = ItemList(self.EMPTY)
        self.wanted: int | None = None
        """A rank to stand on as soon as there is an item that has it."""

    @property
    def main(self) -> Lines:
        """The items."""
        return self.view

    def compose(self) -> ComposeResult:
        """The line of totals, then the items."""
        yield self.bar
        yield self.view

    def feed(self, items: Sequence[Item]) -> None:
        """Show them, and stand on the rank that was wanted before its item was there."""
        self.view.empty = self.model.hint(self.EMPTY)
        self.view.feed(items)
        if self.wanted is not None and self.view.items:
            self.view.select_rank(self.wanted)
            self.wanted = None

    def nodes_of(self, ranks: Iterable[int]) -> str:
        """Nodes of some ranks: all names when they are few."""
        names = sorted({name for rank in ranks for name in self.model.nodes_of_rank.get(rank, ())})
        return " ".join(names) if len(names) <= 2 else plural(len(names), "node")

    def here(self) -> Hashable:
        """A rank of the item under the cursor."""
        item = self.view.current
        return min(item.ranks) if item is not None and item.ranks else None

    def select(self, key: Hashable) -> None:
        """Stand on the item of a rank, now or when it is there."""
        if isinstance(key, int):
            self.wanted = key
            self.view.select_rank(key)

    def node(self) -> str | None:
        """Node of the item's first rank."""
        rank = self.here()
        return next((row.node.name for row in self.model.ranks if row.number == rank), None)

    def chosen_ranks(self) -> set[int]:
        """Ranks of the item under the cursor."""
        item = self.view.current
        return set() if item is None else set(item.ranks)
