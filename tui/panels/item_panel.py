"""A panel of items of ranks under a line of totals, made in another thread of what the session knows."""

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
    """Items, and which ranks are in the one under the cursor; what they hold, the panel makes and lays out."""

    EMPTY = ""
    """What to do where there are none."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self.bar = Bar()
        self.view = ItemList(self.EMPTY)
        self.wanted: int | None = None
        """A rank to stand on as soon as there is an item that has it."""
        self.made: T | None = None
        """What the items tell."""
        self.making = False
        """Whether it is being made: of thousands of ranks that takes seconds, and the next wait until then."""
        self._seen: Hashable = None
        """What it was made of."""

    @property
    def main(self) -> Lines:
        """The items."""
        return self.view

    def compose(self) -> ComposeResult:
        """The line of totals, then the items."""
        yield self.bar
        yield self.view

    def source(self) -> Hashable:
        """What it is made of: another value, and it is made anew."""
        raise NotImplementedError

    def maker(self) -> Callable[[], T]:
        """Take what is known now, and give what makes of it what is shown: never on the loop."""
        raise NotImplementedError

    def lay_out(self) -> None:
        """Write items and totals."""
        raise NotImplementedError

    def draw(self) -> None:
        """Make what is new, and draw."""
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
        if session is not self.model.session:  # another moment is shown by now
            self.renew()
            return
        self.made = made
        self.lay_out()

    def renew(self) -> None:
        """Make what was known then."""
        self._seen = None

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
        return " ".join(names) if len(names) <= 2 else count(len(names), "node")

    def here(self) -> Hashable:
        """A rank of the item under the cursor."""
        item = self.view.current
        return min(item.ranks) if item is not None and item.ranks else None

    def select(self, key: Hashable) -> None:
        """Stand on the item of a rank, now or when it is there."""
        if isinstance(key, int):
            self.wanted = key
            self.view.select_rank(key)

    def whole_text(self) -> str:
        """All items as text."""
        raise NotImplementedError

    def selection(self) -> Selection:
        """The ranks of the item under the cursor, and the first one's node."""
        item, first = self.view.current, self.here()
        node = next((row.node.name for row in self.model.ranks if row.number == first), None)
        return Selection(node, frozenset() if item is None else item.ranks, text=self.whole_text())
