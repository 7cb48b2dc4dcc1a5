"""Panel 8: all ranks' stacks merged: who is where, the fewest first, with what sets them apart."""

from __future__ import annotations

import asyncio

from hangtop.diagnosis.phrasing import ranks_text
from hangtop.diagnosis.stacks.merge import Merged, as_text, merge
from tui.looks.format import age, plural
from tui.looks.theme import Colour
from tui.panels.base import Place, TextWanted
from tui.panels.item_panel import ItemPanel
from tui.panels.story import MANY, stopped_since
from tui.texts.stacked import Entry, entries, full_stack, group_item, judged_as
from tui.view_model import ViewModel
from tui.widgets.lines import Piece

WHOLE = 16
"""Ranks of a group whose stacks are shown whole at once."""


class StacksPanel(ItemPanel):
    """Groups under a line that says what was looked at and when."""

    NAME = "stacks"
    EMPTY = "no stack taken yet: D looks at all ranks (it reads and does not pause them), d at those under the cursor"
    CAN = frozenset({"enter", "copy", "node", "ranks"})
    WHY_NO_FILTER = "groups are few: 2 Ranks can be filtered"

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
            # looks from before the job came to stand still say nothing about it
            rows = (self.model.blamed or self.model.ranks[:MANY]) if self.model.waits else ()
            self._entries = entries(self.model.state, stopped_since(self.model, rows))
            # a few milliseconds for 64 ranks, seconds for thousands: never on the loop
            self.run_worker(self._merged(self._entries), name="merge", exclusive=True, exit_on_error=False)
        elif self._said != (self.model.waits, self.model.moves):
            self.lay_out()
        if self.merged is None:
            self.feed([])
        self.bar.show(self._totals())

    def renew(self) -> None:
        """Merge what was known then."""
        self._seen = None

    async def _merged(self, found: list[Entry]) -> None:
        self.merged = await asyncio.to_thread(merge, found)
        self.lay_out()

    def lay_out(self) -> None:
        """Write the groups."""
        if self.merged is None:
            return
        waiting, moves = self.model.waiting, self.model.moves
        self._said = self.model.waits, moves
        self.feed([
            group_item(group, self.nodes_of(group.ranks), judged_as(waiting, group.ranks, group.activity.label),
                       moves=moves)
            for group in self.merged.groups
        ])  # fmt: skip
        self.bar.show(self._totals())

    def _totals(self) -> list[Piece]:
        merged = self.merged
        if merged is None or not merged.activities:
            return [(" no stack", Colour.STRONG)]
        told = f" {plural(len(merged.activities), 'rank')} in {plural(len(merged.groups), 'group')}"
        old = self.model.now - merged.at
        looks = f"   {merged.looks} looks" if merged.looks > 1 else ""
        taken = f"   taken {age(old)} ago"
        return [(told, Colour.STRONG), (looks, Colour.INFO), (taken, Colour.WARN if old > 60 else Colour.TEXT)]

    def enter(self) -> Place | None:
        """Show the full stacks of the group's ranks, one below the other."""
        item = self.view.current
        if item is not None:
            ranks = sorted(item.ranks)
            stacks = [full_stack(rank, [dump for of, dump in self._entries if of == rank]) for rank in ranks[:WHOLE]]
            left = f", the first {WHOLE} of them" if len(ranks) > WHOLE else ""
            title = f"{ranks_text(ranks)} · {self.nodes_of(ranks)}{left}"
            self.post_message(TextWanted(title, [line for stack in stacks for line in (*stack, [])][:-1]))
        return None

    def text(self) -> str:
        """All groups as text."""
        return as_text(self.merged) if self.merged is not None else ""
