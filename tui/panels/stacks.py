"""Panel 8: all ranks' stacks merged: who is where, the fewest first, with what sets them apart."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable

from textual.app import ComposeResult
from textual.message import Message

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.stacks import Merged, as_text, merge
from tui.format import age, plural
from tui.panels.base import Panel, Place
from tui.panels.block_filter import FIELDS, BlockFilter
from tui.scene import Scene
from tui.stacked import Entry, blocks_of_groups, blocks_of_trees, entries
from tui.theme import Tone
from tui.widgets.bar import Bar
from tui.widgets.blocks import Block, Blocks
from tui.widgets.lines import Move, Piece

EMPTY = "no stack taken yet: D looks at all ranks (it reads and does not pause them), d at those under the cursor"


class StacksPanel(Panel):
    """Groups, or the tree, under a line that says what was looked at and when."""

    NAME = "stacks"
    CAN = frozenset({"filter", "enter", "mark", "copy", "node", "ranks", "samples"})

    class Opened(Message):
        """The full stacks of a group's ranks are wanted."""

        def __init__(self, dumps: dict[int, list[StackDump]], nodes: dict[int, str]) -> None:
            super().__init__()
            self.dumps, self.nodes = dumps, nodes

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.bar = Bar()
        self.view = Blocks(EMPTY)
        self.merged: Merged | None = None
        self.sample: int | None = None
        """The look that is shown; None is all of them."""
        self.as_tree = False
        self._filter = BlockFilter(scene)
        self._entries: list[Entry] = []
        self._blocks: list[Block] = []
        self._seen: tuple[int, float] = (0, 0.0)
        self._wanted: int | None = None

    def compose(self) -> ComposeResult:
        """The line of totals, then the groups."""
        yield self.bar
        yield self.view

    def draw(self) -> None:
        """Merge what is new, elsewhere, and draw."""
        stacks = self.scene.state.stacks
        seen = (len(stacks), stacks[-1][1].at if stacks else 0.0)
        if seen != self._seen:
            self._seen = seen
            self._entries = entries(self.scene.state)
            self._merge()
        self.view.feed(self._blocks)
        self.bar.show(self._totals())

    def renew(self) -> None:
        """Merge what was known then."""
        self._seen = (-1, 0.0)

    def _merge(self) -> None:
        # a few milliseconds for 64 ranks, seconds for thousands: never on the loop
        self.run_worker(self._merged(self._entries, self.sample), name="merge", exclusive=True, exit_on_error=False)

    async def _merged(self, found: list[Entry], sample: int | None) -> None:
        self.merged = await asyncio.to_thread(merge, found, sample)
        self._lay_out()

    def _lay_out(self) -> None:
        if self.merged is not None:
            make = blocks_of_trees if self.as_tree else blocks_of_groups
            self._blocks = self._filter.kept(make(self.merged, self._place))
            self.view.empty = f"no group with “{self.query_text}”" if self.query_text else EMPTY
            self.view.feed(self._blocks)
        if self._wanted is not None:
            self.view.select_rank(self._wanted)
            self._wanted = None
        self.bar.show(self._totals())

    def _place(self, ranks: Iterable[int]) -> str:
        """Nodes of some ranks: all names when they are few."""
        numbers = set(ranks)
        names = sorted({row.node.name for row in self.scene.ranks if row.number in numbers})
        return " ".join(names) if len(names) <= 2 else plural(len(names), "node")

    def _totals(self) -> list[Piece]:
        merged = self.merged
        if merged is None or not merged.activities:
            return [(" no stack yet", Tone.STRONG)]
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
        self._lay_out()

    def set_filter(self, text: str) -> None:
        """Show only groups with a rank, or with words, that the filter lets through."""
        self._filter.set(text)
        self.query_text = text
        self._lay_out()

    def fields(self) -> list[str]:
        """What a filter of groups can name."""
        return list(FIELDS)

    def move(self, how: Move) -> None:
        """Move from group to group."""
        self.view.move(how)

    def mark(self) -> None:
        """Mark the group's ranks."""
        self.view.toggle_mark()
        self.bar.show(self._totals())

    def mark_all(self) -> None:
        """Mark every group; when all are marked, none."""
        every = {block.ranks for block in self._blocks}
        self.view.marked = set() if every <= self.view.marked else every
        self.view.repaint()
        self.bar.show(self._totals())

    def enter(self) -> Place | None:
        """Show the full stack of the group's ranks, one after the other."""
        block = self.view.current
        if block is not None:
            dumps = {rank: [dump for of, dump in self._entries if of == rank] for rank in block.ranks}
            nodes = {row.number: row.node.name for row in self.scene.ranks if row.number in block.ranks}
            self.post_message(self.Opened(dumps, nodes))
        return None

    def here(self) -> Hashable:
        """A rank of the group."""
        block = self.view.current
        return min(block.ranks) if block is not None and block.ranks else None

    def select(self, key: Hashable) -> None:
        """Stand on the group of a rank, now or when its stack is merged."""
        if isinstance(key, int):
            self._wanted = key
            self.view.select_rank(key)

    def node(self) -> str | None:
        """Node of the group's first rank."""
        rank = self.here()
        return next((row.node.name for row in self.scene.ranks if row.number == rank), None)

    def chosen_ranks(self) -> set[int]:
        """Ranks of the marked groups, or of the one under the cursor."""
        return self.view.chosen()

    def text(self) -> str:
        """All groups as text."""
        return as_text(self.merged) if self.merged is not None else ""
