"""Panel 8: the stacks of all ranks merged into groups, the smallest first, with the differing frames marked."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from hangtop.diagnosis.phrasing import count, ranks_text
from hangtop.diagnosis.stacks.merge import Merged, as_text, merge
from tui.looks.format import age
from tui.looks.theme import Colour
from tui.panels.base import Titled
from tui.panels.item_panel import ItemPanel
from tui.panels.job_line import MANY, stopped_since
from tui.texts.stacked import Entry, entries, full_stack, group_item
from tui.view_model import MOVING
from tui.widgets.lines import Piece

WHOLE = 16
"""Most ranks of a group whose full stacks are shown at once."""


class SamplesMerged(NamedTuple):
    """The stacks that count, and their groups."""

    entries: list[Entry]
    merged: Merged


class StacksPanel(ItemPanel[SamplesMerged]):
    """Groups of ranks under a line of totals."""

    NAME = "stacks"
    EMPTY = "no stack taken yet: D takes the stacks of all ranks, d of those under the cursor"
    CAN = frozenset({"enter", "ranks"})

    def source(self) -> Hashable:
        """The number of stacks, and the time of the newest."""
        stacks = self.model.state.stacks
        return len(stacks), stacks[-1][1].at if stacks else 0.0

    def maker(self) -> Callable[[], SamplesMerged]:
        """Merge the newest stacks, without those taken before the job stopped."""
        rows = (self.model.suspects or self.model.ranks[:MANY]) if self.model.waits else ()
        found = entries(self.model.state, stopped_since(self.model, rows))
        return lambda: SamplesMerged(found, merge(found))

    def lay_out(self) -> None:
        """Write the groups."""
        groups = () if self.made is None else self.made.merged.groups
        waiting, moves = self.model.waiting, self.model.outcome in MOVING
        self.feed([group_item(group, self.nodes_of(group.ranks), waiting, moves=moves) for group in groups])
        self.bar.show(self._totals())

    def _totals(self) -> list[Piece]:
        if self.made is None or not self.made.merged.activities:
            return [(" no stack", Colour.STRONG)]
        merged = self.made.merged
        total = f" {count(len(merged.activities), 'rank')} in {count(len(merged.groups), 'group')}"
        old = self.model.now - merged.at
        samples = f"   {merged.samples} samples" if merged.samples > 1 else ""
        taken = f"   taken {age(old)} ago"
        return [(total, Colour.STRONG), (samples, Colour.INFO), (taken, Colour.WARN if old > 60 else Colour.TEXT)]

    def enter(self) -> Titled | None:
        """The full stacks of the group's ranks."""
        item = self.view.current
        if item is None or self.made is None:
            return None
        entries, ranks = self.made.entries, sorted(item.ranks)
        stacks = [full_stack(rank, [dump for of, dump in entries if of == rank]) for rank in ranks[:WHOLE]]
        left = f", the first {WHOLE} of them" if len(ranks) > WHOLE else ""
        title = f"{ranks_text(ranks)} · {self.nodes_of(ranks)}{left}"
        return title, [line for stack in stacks for line in (*stack, [])][:-1]

    def whole_text(self) -> str:
        """All groups as text."""
        return "" if self.made is None else as_text(self.made.merged)
