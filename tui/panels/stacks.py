"""Panel 8: all ranks' stacks merged: who is where, the fewest first, with what sets them apart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.stacks import Merged, as_text, merge
from tui.looks.format import age, plural
from tui.looks.theme import Tone
from tui.panels.base import Place, StacksOpened
from tui.panels.block_panel import BlockPanel
from tui.panels.story import stopped_since
from tui.scene import Scene
from tui.texts.stacked import Entry, blocks_of_groups, blocks_of_trees, entries, judged_as
from tui.widgets.lines import Piece

ASKED = 256
"""Ranks of which it is asked since when they stand still, where nobody is blamed."""
EMPTY = "no stack taken yet: D looks at all ranks (it reads and does not pause them), d at those under the cursor"


class StacksPanel(BlockPanel):
    """Groups, or the tree, under a line that says what was looked at and when."""

    NAME = "stacks"
    EMPTY = EMPTY
    CAN = frozenset({"filter", "enter", "mark", "copy", "node", "ranks", "samples"})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.merged: Merged | None = None
        self.sample: int | None = None
        """The look that is shown; None is all of them."""
        self.as_tree = False
        self._entries: list[Entry] = []
        self._seen: tuple[int, float] = (0, 0.0)
        self._boxes: tuple[WaitBox, ...] = ()
        """Those that the headings speak of."""
        self._moves = False

    def draw(self) -> None:
        """Merge what is new, elsewhere, and draw."""
        stacks = self.scene.state.stacks
        seen = (len(stacks), stacks[-1][1].at if stacks else 0.0)
        if seen != self._seen:
            self._seen = seen
            self._entries = entries(self.scene.state, self._stood_since())
            self._merge()
        elif (self._boxes, self._moves) != (self.scene.waits, self.scene.moves):
            self.lay_out()
        if self.merged is None:
            self.view.empty = self.hint(EMPTY)
        self.view.feed(self.blocks)
        self.bar.show(self._totals())

    def _stood_since(self) -> float | None:
        """When the job came to stand still: looks from before say nothing about it. None while it moves."""
        return stopped_since(self.scene, self.scene.blamed or self.scene.ranks[:ASKED]) if self.scene.waits else None

    def renew(self) -> None:
        """Merge what was known then."""
        self._seen = (-1, 0.0)

    def _merge(self) -> None:
        # a few milliseconds for 64 ranks, seconds for thousands: never on the loop
        self.run_worker(self._merged(self._entries, self.sample), name="merge", exclusive=True, exit_on_error=False)

    async def _merged(self, found: list[Entry], sample: int | None) -> None:
        self.merged = await asyncio.to_thread(merge, found, sample)
        self.lay_out()

    def lay_out(self) -> None:
        """Write the groups, or the tree, that pass the filter."""
        if self.merged is not None:
            self._boxes, self._moves = self.scene.waits, self.scene.moves
            judged = partial(judged_as, self._boxes, self.scene.waiting.place_of)
            tree, place = self.as_tree, self._place
            groups = partial(blocks_of_groups, moves=self._moves)
            blocks = blocks_of_trees(self.merged, place) if tree else groups(self.merged, place, judged)
            self.blocks = self.filter.kept(blocks)
            self.view.empty = f"no group with “{self.query_text}”" if self.query_text else self.hint(EMPTY)
            self.view.feed(self.blocks)
        self.stand_where_wanted()
        self.bar.show(self._totals())

    def _place(self, ranks: Iterable[int]) -> str:
        """Nodes of some ranks: all names when they are few."""
        numbers = set(ranks)
        names = sorted({row.node.name for row in self.scene.ranks if row.number in numbers})
        return " ".join(self.scene.names.all(names)) if len(names) <= 2 else plural(len(names), "node")

    def _totals(self) -> list[Piece]:
        merged = self.merged
        if merged is None or not merged.activities:
            return [(self.none_of("stack"), Tone.STRONG)]
        pieces: list[Piece] = [
            (f" {plural(len(merged.activities), 'rank')}", Tone.STRONG),
            (" in ", Tone.DIM),
            (plural(len(merged.groups), "group"), Tone.STRONG),
        ]
        which = f"all {merged.looks} looks" if self.sample is None else f"look {self.sample + 1} of {merged.looks}"
        if merged.looks > 1:
            pieces += [("   ", Tone.DIM), (which, Tone.INFO), (", s: the next", Tone.DIM)]
        old = self.scene.now - merged.at
        pieces += [("   taken ", Tone.DIM), (f"{age(old)} ago", Tone.WARN if old > 60 else Tone.TEXT)]
        if self.view.marked:
            pieces += [("   ", Tone.DIM), (f"◆ {plural(len(self.view.chosen()), 'rank')} marked", Tone.ACCENT)]
        return pieces

    def next_sample(self) -> None:
        """Show all looks together, then each alone."""
        looks = self.merged.looks if self.merged else 0
        if looks > 1:
            following = 0 if self.sample is None else self.sample + 1
            self.sample = following if following < looks else None
            self._merge()

    def toggle_tree(self) -> None:
        """Show the prefix tree, or the groups again."""
        self.as_tree = not self.as_tree
        self.lay_out()

    def mark(self) -> None:
        """Mark the group's ranks."""
        self.view.toggle_mark()
        self.bar.show(self._totals())

    def mark_all(self) -> None:
        """Mark every group; when all are marked, none."""
        every = {block.ranks for block in self.blocks}
        self.view.marked = set() if every <= self.view.marked else every
        self.view.repaint()
        self.bar.show(self._totals())

    def enter(self) -> Place | None:
        """Show the full stack of the group's ranks, one after the other."""
        block = self.view.current
        if block is not None:
            dumps = {rank: [dump for of, dump in self._entries if of == rank] for rank in block.ranks}
            nodes = {row.number: row.node.name for row in self.scene.ranks if row.number in block.ranks}
            self.post_message(StacksOpened(dumps, nodes))
        return None

    def text(self) -> str:
        """All groups as text."""
        return as_text(self.merged) if self.merged is not None else ""
