"""A panel of items with ranks under a line of totals, computed in another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from textual.app import ComposeResult

from hangtop.diagnosis.phrasing import count
from tui.panels.base import Panel, Selection
from tui.view_model import ViewModel
from tui.widgets.itemlist import Item, ItemList
from tui.widgets.lines import Bar, Lines

T = TypeVar("T")


class ItemPanel(Panel, Generic[T]):
    """Base of panels of items; a subclass computes their data (:meth:`maker`) and writes them (:meth:`lay_out`)."""

    EMPTY = ""
    """Text without items: what to do."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self.bar = Bar()
        self.view = ItemList(self.EMPTY)
        self.wanted: int | None = None
        """A rank to select as soon as an item has it."""
        self.made: T | None = None
        """The computed data of the items."""
        self.making = False
        """True while data is computed; for thousands of ranks that takes seconds, and no second computation starts."""
        self._seen: Hashable = None
        """The :meth:`source` of the computed data."""

    @property
    def main(self) -> Lines:
        """The items."""
        return self.view

    def compose(self) -> ComposeResult:
        """The line of totals, then the items."""
        yield self.bar
        yield self.view

    def source(self) -> Hashable:
        """Identity of the input: a new value starts a new computation."""
        raise NotImplementedError

    def maker(self) -> Callable[[], T]:
        """Copy the present input, and return the function that computes the data; it runs outside the event loop."""
        raise NotImplementedError

    def lay_out(self) -> None:
        """Write items and totals from :attr:`made`."""
        raise NotImplementedError

    def draw(self) -> None:
        """Start a computation if the input is new, and draw."""
        if (seen := self.source()) != self._seen and not self.making:
            self._seen, self.making = seen, True
            self.run_worker(self._make(), name=f"make {self.NAME}", exit_on_error=False)
        self.lay_out()

    async def _make(self) -> None:
        session = self.model.session
        try:
            made = await asyncio.to_thread(self.maker())
        finally:
            self.making = False
        if session is not self.model.session:  # the screen shows another moment now
            self.renew()
            return
        self.made = made
        self.lay_out()

    def renew(self) -> None:
        """Compute again at the next draw."""
        self._seen = None

    def feed(self, items: Sequence[Item]) -> None:
        """Show the items, and select the wanted rank if it is among them."""
        self.view.empty = self.model.hint(self.EMPTY)
        self.view.feed(items)
        if self.wanted is not None and self.view.items:
            self.view.select_rank(self.wanted)
            self.wanted = None

    def nodes_of(self, ranks: Iterable[int]) -> str:
        """Nodes of some ranks: up to two names, else their number."""
        names = sorted({name for rank in ranks for name in self.model.nodes_of_rank.get(rank, ())})
        return " ".join(names) if len(names) <= 2 else count(len(names), "node")

    def here(self) -> Hashable:
        """The lowest rank of the current item."""
        item = self.view.current
        return min(item.ranks) if item is not None and item.ranks else None

    def select(self, key: Hashable) -> None:
        """Select the item of a rank, now or as soon as it exists."""
        if isinstance(key, int):
            self.wanted = key
            self.view.select_rank(key)

    def whole_text(self) -> str:
        """All items as text."""
        raise NotImplementedError

    def selection(self) -> Selection:
        """The ranks of the current item, and the node of the lowest."""
        item, first = self.view.current, self.here()
        node = next((row.node.name for row in self.model.ranks if row.number == first), None)
        return Selection(node, frozenset() if item is None else item.ranks, text=self.whole_text())
