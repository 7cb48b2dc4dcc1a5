"""Panel 8: all ranks' stacks merged: who is where, the fewest first, with what sets them apart."""

from __future__ import annotations

import asyncio

from hangtop.diagnosis.stacks import Merged, as_text, merge
from tui.looks.format import age, plural
from tui.looks.theme import Colour
from tui.panels.base import Place, StacksOpened
from tui.panels.item_panel import ItemPanel
from tui.panels.story import MANY, stopped_since
from tui.texts.stacked import Entry, entries, group_item, judged_as
from tui.view_model import ViewModel
from tui.widgets.lines import Piece


class StacksPanel(ItemPanel):
    """Groups under a line that says what was looked at and when."""

    NAME = "stacks"
    EMPTY = "no stack taken yet: D looks at all ranks (it reads and does not pause them), d at those under the cursor"
    CAN = frozenset({"filter", "enter", "mark", "copy", "node", "ranks"})

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self.merged: Merged | None = None
        self._entries: list[Entry] = []
        self._seen: object = None
        """What the merge was made of."""
        self._said: object = None
        """What the headings speak of."""

    def draw(self) -> None:
        """Merge what is new, elsewhere, and draw."""
        stacks = self.model.state.stacks
        seen = (len(stacks), stacks[-1][1].at if stacks else 0.0)
        if seen != self._seen:
            self._seen = seen
            self._entries = entries(self.model.state, self._stood_since())
            self._merge()
        elif self._said != (self.model.waits, self.model.moves):
            self.lay_out()
        if self.merged is None:
            self.view.empty = self.hint(self.EMPTY)
        self.view.redraw()
        self.bar.show(self._totals())

    def _stood_since(self) -> float | None:
        """When the job came to stand still: looks from before say nothing about it. None while it moves."""
        return stopped_since(self.model, self.model.blamed or self.model.ranks[:MANY]) if self.model.waits else None

    def renew(self) -> None:
        """Merge what was known then."""
        self._seen = None

    def _merge(self) -> None:
        # a few milliseconds for 64 ranks, seconds for thousands: never on the loop
        self.run_worker(self._merged(self._entries), name="merge", exclusive=True, exit_on_error=False)

    async def _merged(self, found: list[Entry]) -> None:
        self.merged = await asyncio.to_thread(merge, found)
        self.lay_out()

    def lay_out(self) -> None:
        """Write the groups that pass the filter."""
        if self.merged is None:
            return
        self._said = self.model.waits, self.model.moves
        self.view.empty = f"no group with “{self.query_text}”" if self.query_text else self.hint(self.EMPTY)
        waiting, moves = self.model.waiting, self.model.moves
        self.feed([
            group_item(group, self.nodes_of(group.ranks), judged_as(waiting, group.ranks, group.activity.label),
                       moves=moves)
            for group in self.merged.groups
        ])  # fmt: skip
        self.bar.show(self._totals())

    def _totals(self) -> list[Piece]:
        merged = self.merged
        if merged is None or not merged.activities:
            return [(self.none_of("stack"), Colour.STRONG)]
        pieces: list[Piece] = [
            (f" {plural(len(merged.activities), 'rank')}", Colour.STRONG),
            (" in ", Colour.DIM),
            (plural(len(merged.groups), "group"), Colour.STRONG),
        ]
        if merged.looks > 1:
            pieces += [("   ", Colour.DIM), (f"{merged.looks} looks", Colour.INFO)]
        old = self.model.now - merged.at
        pieces += [("   taken ", Colour.DIM), (f"{age(old)} ago", Colour.WARN if old > 60 else Colour.TEXT)]
        if self.view.marked:
            pieces.append((f"   ◆ {plural(len(self.view.chosen()), 'rank')} marked", Colour.ACCENT))
        return pieces

    def mark(self) -> None:
        """Mark the group's ranks."""
        self.view.toggle_mark()
        self.bar.show(self._totals())

    def mark_all(self) -> None:
        """Mark every group; when all are marked, none."""
        every = {item.ranks for item in self.view.items}
        self.view.marked = set() if every <= self.view.marked else every
        self.view.repaint()
        self.bar.show(self._totals())

    def enter(self) -> Place | None:
        """Show the full stack of the group's ranks, one after the other."""
        item = self.view.current
        if item is not None:
            dumps = {rank: [dump for of, dump in self._entries if of == rank] for rank in item.ranks}
            nodes = {row.number: row.node.name for row in self.model.ranks if row.number in item.ranks}
            self.post_message(StacksOpened(dumps, nodes))
        return None

    def text(self) -> str:
        """All groups as text."""
        return as_text(self.merged) if self.merged is not None else ""
