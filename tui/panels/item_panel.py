"""A panel of items of ranks under a line of totals; a filter keeps items of which a rank passes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from textual.app import ComposeResult

from tui.looks.format import plural
from tui.ordering.filter import Value, parse
from tui.panels.base import Panel
from tui.view_model import ViewModel
from tui.widgets.itemlist import Item, ItemList
from tui.widgets.lines import Bar, Lines, text_of


class Seen(NamedTuple):
    """A rank of an item."""

    rank: int
    node: str
    text: str
    """All of the item."""


FIELDS: dict[str, Callable[[Seen], Value]] = {"rank": lambda seen: seen.rank, "node": lambda seen: seen.node}


class ItemPanel(Panel):
    """Items, a filter of them, and who is in the one under the cursor; what they hold, the panel lays out."""

    EMPTY = ""
    """What to do where there are none."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self.bar = Bar()
        self.view = ItemList("items", self.EMPTY)
        self.wanted: int | None = None
        """A rank to stand on as soon as there is an item that has it."""
        self._test: Callable[[Seen], bool] | None = None

    @property
    def main(self) -> Lines:
        """The items."""
        return self.view

    def compose(self) -> ComposeResult:
        """The line of totals, then the items."""
        yield self.bar
        yield self.view

    def lay_out(self) -> None:
        """Make the items of what is known, and draw."""
        raise NotImplementedError

    def feed(self, items: Sequence[Item]) -> None:
        """Show those that pass the filter, and stand on the rank that was wanted before its item was there."""
        self.view.feed(self._kept(items))
        if self.wanted is not None and self.view.items:
            self.view.select_rank(self.wanted)
            self.wanted = None

    def _kept(self, items: Sequence[Item]) -> list[Item]:
        test = self._test
        if test is None:
            return list(items)
        nodes = {row.number: row.node.name for row in self.model.ranks}
        return [
            item
            for item in items
            if any(test(Seen(rank, nodes.get(rank, ""), text_of([*item.lines]))) for rank in item.ranks)
        ]

    def nodes_of(self, ranks: Iterable[int]) -> str:
        """Nodes of some ranks: all names when they are few."""
        names = sorted({name for rank in ranks for name in self.model.nodes_of_rank.get(rank, ())})
        return " ".join(self.model.names.all(names)) if len(names) <= 2 else plural(len(names), "node")

    def set_filter(self, text: str) -> None:
        """Show only items with a rank, or with words, that the filter lets through."""
        wanted = parse(text)
        self._test = wanted.bind(FIELDS, lambda seen: seen.text) if wanted.terms else None
        self.query_text = text
        self.lay_out()

    def fields(self) -> list[str]:
        """What a filter of items can name."""
        return list(FIELDS)

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
