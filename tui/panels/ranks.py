"""Panel 2: every rank's process, what it does with its CPU and its GPU, and when it last said something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from hangtop.diagnosis.phrasing import ranks_on
from tui.looks.format import ranks_word
from tui.looks.theme import Colour
from tui.measure import source_is_stale, state_of
from tui.ordering.rows import RankRow
from tui.panels.base import Fact, Place
from tui.panels.facts import rank_brief, rank_facts
from tui.panels.rank_columns import STATES, rank_columns
from tui.panels.table_panel import TablePanel
from tui.view_model import ViewModel
from tui.widgets.lines import Piece
from tui.widgets.table import Column


class RanksPanel(TablePanel[RankRow]):
    """The table of ranks."""

    NAME = "ranks"
    FROZEN = 2
    EMPTY = (
        "no rank seen yet: a rank is a process with RANK and WORLD_SIZE (or Slurm's, Open MPI's) in its environment, "
        "or one with torch, JAX or NCCL mapped"
    )

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self._waited = False

    def columns(self) -> Sequence[Column[RankRow]]:
        """Who, where, which step, what it does now and for whom it waits; then its process."""
        return rank_columns(self.model)

    def rows(self) -> Sequence[RankRow]:
        """All ranks. Columns that nobody fills any more once a wait is over are left out again."""
        self.table.empty = self.hint(self.EMPTY)
        if self._waited is not bool(self.model.waits):
            self._waited = bool(self.model.waits)
            self.table.view.forget()
        return self.model.ranks

    def node_of(self, row: RankRow) -> str:
        """Name of the row's node."""
        return row.node.name

    def key(self, row: RankRow) -> Hashable:
        """Rank and process."""
        return row.number, row.node.name, row.rank.process.pid

    def blamed(self) -> Hashable:
        """The first rank that the verdict names."""
        rows = self.model.suspects
        return self.key(rows[0]) if rows else None

    def is_stale(self, row: RankRow) -> bool:
        """Its node does not respond, or the source of ranks does not."""
        return row.rank.gone_at is not None or self.model.stale(row.node) or source_is_stale(row.node, "ranks")

    def totals(self) -> list[Piece]:
        """How many ranks, in which states."""
        count = self.model.count
        of = "" if count.world_size is None else f" of {count.world_size:,}"
        narrow = self.shown_of("rank")
        live = self.model.session.live
        number, what = (count.ranks_alive, "alive") if live else (count.ranks, "told of")
        known = f"{number:,}{of} {ranks_word(number, count.world_size)} {what}"
        pieces = narrow or [(f" {known}", Colour.STRONG)]
        if count.ranks_unheard and not narrow:
            pieces.append((f"   ◌ {count.ranks_unheard:,} on nodes that do not respond", Colour.WARN))
        rows = self.kept(self.model.ranks)
        heard = [row for row in rows if row.rank.gone_at is None and not self.model.stale(row.node)]
        own = [row for row in heard if narrow or not self.model.strange(row.node, row.rank.process.pid)]
        states = Counter(filter(None, (state_of(row.rank) for row in own)))
        for letter, times in states.most_common():
            word, colour = STATES.get(letter, (letter, Colour.TEXT))
            pieces += [
                ("   ", Colour.DIM),
                (f"{times:,} {word[2:]}", colour if colour is not Colour.OK else Colour.TEXT),
            ]
        nameless = sum(row.number < 0 and row.rank.gone_at is None for row in rows)
        if nameless:
            pieces.append((f"   {nameless:,} without a number", Colour.WARN))
        unrelated = 0 if narrow else len(self.model.rows.unrelated)
        if unrelated > 0:
            pieces.append((f"   {unrelated:,} not of this job", Colour.WARN))
        gone = 0 if narrow else count.ranks - count.ranks_alive - count.ranks_unheard
        if gone:
            pieces.append((f"   {gone:,} ended", Colour.WARN))
        if self.table.marked:
            pieces.append((f"   ◆ {len(self.table.marked):,} marked", Colour.ACCENT))
        return pieces

    def enter(self) -> Place | None:
        """Into the rank's log."""
        row = self.table.current
        if row is None:
            return None
        return Place("logs", f"rank={row.number}" if row.number >= 0 else f"node={row.node.name}")

    def select(self, key: Hashable) -> None:
        """Stand on a rank: by its whole key, or by its number alone."""
        if isinstance(key, int):
            key = next((self.key(row) for row in self.rows() if row.number == key), None)
        super().select(key)

    def chosen_ranks(self) -> set[int]:
        """Marked ranks, or the one under the cursor."""
        return {row.number for row in self.table.chosen()}

    def details(self) -> tuple[str, list[Fact]] | None:
        """All that is known of the process."""
        row = self.table.current
        return None if row is None else (ranks_on([row.number], [row.node.name]), rank_facts(row, self.model))

    def beside(self) -> tuple[str, list[Fact]] | None:
        """What a person asks of the rank first: stack, last lines, GPU and port."""
        row = self.table.current
        if row is None:
            return None
        return ranks_on([row.number], [row.node.name]), [*rank_brief(row, self.model), *rank_facts(row, self.model)]
