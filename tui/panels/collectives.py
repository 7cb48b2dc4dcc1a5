"""Panel 9: the last collectives of every group, ranks side by side, the odd one marked."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable

from hangtop.diagnosis.groups.grid import grids
from hangtop.diagnosis.groups.table import CollectiveGrid
from hangtop.diagnosis.phrasing import folded
from tui.looks.format import age, plural
from tui.looks.theme import Tone
from tui.ordering.rows import RankRow
from tui.panels.base import Fact, Place
from tui.panels.block_panel import BlockPanel
from tui.scene import Scene
from tui.texts.gridded import LEGEND, blocks_of_grids, columns_in, is_of, longest
from tui.widgets.lines import Move, Piece

EMPTY = "r asks for flight recorder dumps; NCCL's COLL log lines and RAS fill this, too"
PERIOD = 2.0
"""Seconds between two tables of a job that moves."""


class CollectivesPanel(BlockPanel):
    """Tables of collectives under a line that says what the marks mean."""

    NAME = "collectives"
    EMPTY = EMPTY
    CAN = frozenset({"filter", "enter", "copy", "node", "ranks", "details"})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.back = 0
        """Columns that were scrolled away: 0 shows the newest."""
        self._grids: tuple[CollectiveGrid, ...] = ()
        self._seen: Hashable = None
        self._made_at = float("-inf")
        self._making = False
        """Whether tables are being made: of thousands of ranks that takes seconds, and the next wait until then."""
        self._where: tuple[list[RankRow], dict[int, set[str]]] = ([], {})
        """Names of nodes by rank, and the rows that they are from."""

    def draw(self) -> None:
        """Make the tables anew, elsewhere, when a witness said something else; and draw."""
        seen = self._evidence()
        if seen != self._seen and self.scene.now - self._made_at >= PERIOD and not self._making:
            self._seen, self._made_at, self._making = seen, self.scene.now, True
            self.run_worker(self._made(), name="grids", exclusive=True, exit_on_error=False)
        self.lay_out()

    def renew(self) -> None:
        """Make the tables of what was known then."""
        self._seen, self._made_at = None, float("-inf")

    def _evidence(self) -> Hashable:
        """What changes whenever a witness said something new."""
        state = self.scene.state
        dumps = tuple((rank, dump.at) for rank, dump in state.recorders.items())
        launched = sum(one.launched for one in state.progress.values())
        heard = state.ras[-1].at if state.ras else None
        return dumps, len(state.progress), launched, heard, len(self.scene.ranks)

    async def _made(self) -> None:
        session = self.scene.session
        try:
            snapshot = session.snapshot()
            found = await asyncio.to_thread(lambda: grids(session.job_of(snapshot)))
        finally:
            self._making = False
        if session is not self.scene.session:  # another moment is shown by now
            self._seen, self._made_at = None, float("-inf")
            return
        self._grids = found
        self.lay_out()
        self.stand_where_wanted()

    def lay_out(self) -> None:
        """Write the tables that pass the filter, as many columns as have room."""
        width = max(20, self.view.size.width - 1)
        self.back = max(0, min(self.back, longest(self._grids) - columns_in(width)))
        made = blocks_of_grids(self._grids, width, self.back, self.scene.now, self._place)
        self.blocks = self.filter.kept(made)
        self.view.empty = (
            f"no line with “{self.query_text}”" if self.query_text else "" if self._making else self.hint(EMPTY)
        )
        self.view.feed(self.blocks)
        self.bar.show(self._totals())

    def _place(self, ranks: Iterable[int]) -> str:
        rows = self.scene.ranks
        if self._where[0] is not rows:
            nodes: dict[int, set[str]] = {}
            for row in rows:
                nodes.setdefault(row.number, set()).add(row.node.name)
            self._where = rows, nodes
        names = {name for rank in ranks for name in self._where[1].get(rank, ())}
        return self.scene.names.of(names.pop()) if len(names) == 1 else ""

    def _totals(self) -> list[Piece]:
        if not self._grids:
            return [(" the tables are being made" if self._making else self.none_of("collective seen"), Tone.STRONG)]
        odd = sum(grid.odd for grid in self._grids)
        pieces: list[Piece] = [(f" {plural(len(self._grids), 'table')}", Tone.STRONG)]
        if odd:
            pieces.append((f"  ▸ {odd} with an odd rank", Tone.BAD))
        if self.back:
            pieces.append((f"  {self.back} newer to the right", Tone.INFO))
        return [*pieces, ("  ", Tone.TEXT), *LEGEND]

    def move(self, how: Move) -> None:
        """Move from line to line; left and right to older and newer collectives."""
        if how in ("left", "right"):
            self.back += 1 if how == "left" else -1
            self.lay_out()
        else:
            super().move(how)

    def enter(self) -> Place | None:
        """To the ranks of the line."""
        ranks = self.chosen_ranks()
        return Place("ranks", f"rank={folded(ranks)}", min(ranks)) if ranks else None

    def _grid_here(self) -> CollectiveGrid | None:
        block = self.view.current
        return next((grid for grid in self._grids if block and is_of(block, grid)), None)

    def details(self) -> tuple[str, list[Fact]] | None:
        """Where the table under the cursor comes from, and who is in it."""
        grid = self._grid_here()
        if grid is None:
            return None
        facts: list[Fact] = [
            ("witness", grid.witness),
            ("group", grid.title()),
            ("size", "unknown" if grid.size is None else str(grid.size)),
            (
                "last heard" if grid.aged else "newest entry",
                "unknown" if grid.at is None else f"{age(self.scene.now - grid.at)} ago",
            ),
        ]
        facts += [("" if number else "from", source) for number, source in enumerate(grid.sources)]
        facts += [("" if number else "ranks", line.label) for number, line in enumerate(grid.lines)]
        return f"{grid.witness}: {grid.name}", facts

    def text(self) -> str:
        """All tables as text."""
        return "\n".join("".join(text for text, _ in line).rstrip() for block in self.blocks for line in block.lines)
