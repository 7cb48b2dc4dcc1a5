"""Panel 2: every rank's process, what it does with its CPU and its GPU, and when it last said something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from hangtop.diagnosis.phrasing import ranks_on
from hangtop.session.state.job_state import NodeState, RankState
from tui.figures.measure import source_is_stale, state_of
from tui.looks.format import ranks_word
from tui.looks.theme import Tone
from tui.ordering.rows import RankRow
from tui.panels.base import Fact, Place
from tui.panels.facts import rank_facts
from tui.panels.rank_columns import STATES, rank_columns, told_columns, verdict_columns
from tui.panels.table_panel import TablePanel
from tui.scene import Scene
from tui.widgets.lines import Piece
from tui.widgets.table import Column

TELLERS = 1024
"""Rows among which one that tells its step is looked for: where any rank does, nearly all do."""
MOST_NAMELESS = 4096
"""Rows among which processes without a number are counted: they stand before the ranks."""


class RanksPanel(TablePanel[RankRow]):
    """The table of ranks."""

    NAME = "ranks"
    FROZEN = 2
    EMPTY = (
        "no rank seen yet: a rank is a process with RANK and WORLD_SIZE (or Slurm's, Open MPI's) in its environment, "
        "or one with torch, JAX or NCCL mapped"
    )

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._states = self.rolling(self._states_of)
        self._tells = self._hung = self._waited = False

    def _states_of(self, node: NodeState) -> str:
        """Letters of those of a node's ranks that are shown; nobody knows those of one that does not respond."""
        if self.scene.stale(node):
            return ""
        if self.narrowed():
            return _states([row.rank for row in self.kept(node)])
        strange = self.scene.strange
        return _states([rank for pid, rank in node.ranks.items() if not strange(node, pid)])

    def renew(self) -> None:
        """Count the states anew."""
        self._states.forget()

    def columns(self) -> Sequence[Column[RankRow]]:
        """Who, where, what state, how busy, what on the GPU, when last heard."""
        return rank_columns(self.scene)

    def rows(self) -> Sequence[RankRow]:
        """All ranks. Once one tells its step and phase, or is waited for, there are columns for that.

        Those of a wait are left out again once nobody waits any more, and where a moment is shown in which nobody did.
        """
        rows = self.scene.ranks
        self.table.empty = self.hint(self.EMPTY)
        if not self._tells and any(row.rank.inside is not None for row in rows[:TELLERS]):
            self._tells = True
            self._put_before("cpu", told_columns(self.scene))
        if not self._hung and self.scene.waits:
            self._hung = True
            self._put_before("state", verdict_columns(self.scene))
        if self._waited and not self.scene.waits:
            self.table.in_view.forget({column.key for column in verdict_columns(self.scene)})
        self._waited = bool(self.scene.waits)
        return rows

    def _put_before(self, key: str, more: Sequence[Column[RankRow]]) -> None:
        columns = self.table.columns
        place = next(place for place, column in enumerate(columns) if column.key == key)
        self.table.take_columns((*columns[:place], *more, *columns[place:]))

    def node_of(self, row: RankRow) -> str:
        """Name of the row's node."""
        return row.node.name

    def key(self, row: RankRow) -> Hashable:
        """Rank and process."""
        return row.number, row.node.name, row.rank.process.pid

    def blamed(self) -> Hashable:
        """The first rank that the verdict names."""
        rows = self.scene.suspects
        return self.key(rows[0]) if rows else None

    def is_stale(self, row: RankRow) -> bool:
        """Its node does not respond, or the source of ranks does not."""
        return row.rank.gone_at is not None or self.scene.stale(row.node) or source_is_stale(row.node, "ranks")

    def totals(self) -> list[Piece]:
        """How many ranks, in which states."""
        count = self.scene.count
        of = "" if count.world_size is None else f" of {count.world_size:,}"
        narrow = self.shown_of("rank")
        live = self.scene.session.live
        number, what = (count.ranks_alive, "alive") if live else (count.ranks, "told of")
        known = f"{number:,}{of} {ranks_word(number, count.world_size)} {what}"
        pieces = narrow or [(f" {known}", Tone.STRONG)]
        if count.ranks_unheard and not narrow:
            pieces += [("   ", Tone.DIM), (f"◌ {count.ranks_unheard:,} on nodes that do not respond", Tone.WARN)]
        states: Counter[str] = Counter()
        for letters, nodes in Counter(self._states.turn(self.scene.nodes)).items():
            for letter in letters:
                states[letter] += nodes
        for letter, times in states.most_common():
            word, tone = STATES.get(letter, (letter, Tone.TEXT))
            pieces += [("   ", Tone.DIM), (f"{times:,} {word[2:]}", tone if tone is not Tone.OK else Tone.TEXT)]
        rows = self.table.rows if narrow else self.scene.ranks
        nameless = sum(row.number < 0 and row.rank.gone_at is None for row in rows[:MOST_NAMELESS])
        if nameless:
            pieces += [("   ", Tone.DIM), (f"{nameless:,} without a number", Tone.WARN)]
        twice = 0 if narrow else self.scene.session.told_twice
        strangers = 0 if narrow else len(self.scene.lists.strangers) - twice
        if strangers > 0:
            pieces += [("   ", Tone.DIM), (f"{strangers:,} not of this job", Tone.WARN)]
        if twice:
            pieces += [("   ", Tone.DIM), (f"{twice:,} told by two names", Tone.WARN)]
        gone = 0 if narrow else count.ranks - count.ranks_alive - count.ranks_unheard
        if gone:
            pieces += [("   ", Tone.DIM), (f"{gone:,} ended", Tone.WARN)]
        if self.table.marked:
            pieces += [("   ", Tone.DIM), (f"◆ {len(self.table.marked):,} marked", Tone.ACCENT)]
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

    def node(self) -> str | None:
        """Node of the rank."""
        row = self.table.current
        return None if row is None else row.node.name

    def chosen_ranks(self) -> set[int]:
        """Marked ranks, or the one under the cursor."""
        return {row.number for row in self.table.chosen()}

    def details(self) -> tuple[str, list[Fact]] | None:
        """All that is known of the process."""
        row = self.table.current
        return None if row is None else (ranks_on([row.number], [row.node.name]), rank_facts(row, self.scene))


def _states(ranks: Iterable[RankState]) -> str:
    """Letters of the ranks of a node, in order: most nodes have the same."""
    states = [state_of(rank) for rank in ranks if rank.gone_at is None]
    return "".join(sorted([state for state in states if state is not None]))
