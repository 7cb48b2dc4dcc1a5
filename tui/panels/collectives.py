"""Panel 9: what the ranks of every communicator have launched, ranks behind the others first.

One table for each communicator and source: flight recorder dumps, watchdog timeouts, NCCL's RAS, NCCL's log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from enum import IntEnum

from hangtop.diagnosis.collectives.progress import LaunchProgress
from hangtop.diagnosis.collectives.sources import progress_of
from hangtop.diagnosis.phrasing import count, folded, ranks_text
from tui.looks.format import age
from tui.looks.text import fit
from tui.looks.theme import Colour
from tui.panels.base import Place
from tui.panels.item_panel import ItemPanel
from tui.widgets.itemlist import Item
from tui.widgets.lines import Piece, text_of

LABEL = 28
"""Cells of the left column."""


class Standing(IntEnum):
    """A rank's progress in a communicator, in the order of display."""

    BEHIND = 0
    UNCOVERED = 1
    WAITS = 2
    LAUNCHED = 3


LOOKS: Mapping[Standing, tuple[str, Colour]] = {
    Standing.BEHIND: ("✖", Colour.BAD),
    Standing.UNCOVERED: ("·", Colour.DIM),
    Standing.WAITS: ("…", Colour.WARN),
    Standing.LAUNCHED: ("✔", Colour.OK),
}
"""Mark and colour of each standing."""


class CollectivesPanel(ItemPanel[tuple[LaunchProgress, ...]]):
    """Communicators, with one line for ranks that have launched the same."""

    NAME = "collectives"
    EMPTY = (
        "no source has reported collectives yet: r asks the ranks for flight recorder dumps; "
        "watchdog timeouts, NCCL RAS and NCCL's log appear as they come"
    )
    CAN = frozenset({"enter", "ranks"})

    def source(self) -> Hashable:
        """Times of the recorder dumps and RAS answers, and the number of ranks."""
        state = self.model.state
        dumps = tuple((rank, dump.at) for rank, dump in state.recorders.items())
        return dumps, tuple(look.at for look in state.ras), len(self.model.ranks)

    def maker(self) -> Callable[[], tuple[LaunchProgress, ...]]:
        """Compute the progress from all sources: communicators with ranks behind first, then the largest."""
        session, snapshot = self.model.session, self.model.session.snapshot()

        def made() -> tuple[LaunchProgress, ...]:
            found = [progress for progress in progress_of(session.job_of(snapshot)) if progress.last]
            return tuple(sorted(found, key=lambda group: (not group.behind, -len(group.members), group.label)))

        return made

    def lay_out(self) -> None:
        """Write the communicators."""
        self.feed([item for number, progress in enumerate(self.made or ()) for item in self._items(number, progress)])
        self.bar.show(self._totals())

    def _items(self, number: int, progress: LaunchProgress) -> list[Item]:
        """A heading, then one line per set of ranks with the same progress."""
        alike: dict[tuple[Standing, str], list[int]] = defaultdict(list)
        behind, uncovered = set(progress.behind), set(progress.uncovered)
        for rank in sorted(progress.members):
            last, waits = progress.last.get(rank), progress.waiting.get(rank)
            if waits is not None:
                alike[Standing.WAITS, f"waits in {waits.name} #{waits.seq}"].append(rank)
            elif rank in uncovered or last is None:
                alike[Standing.UNCOVERED, "last launch unknown"].append(rank)
            else:
                standing = Standing.BEHIND if rank in behind else Standing.LAUNCHED
                alike[standing, f"launched #{last.seq} last" if last.seq >= 0 else "launched nothing"].append(rank)
        items = [Item((self._heading(progress),), progress.members, number, apart=True)]
        for (standing, text), ranks in sorted(alike.items()):
            mark, colour = LOOKS[standing]
            odd = standing is Standing.BEHIND or (standing is Standing.UNCOVERED and bool(progress.waiting))
            label = fit(f"{ranks_text(ranks)} {self.nodes_of(ranks) if len(ranks) == 1 else ''}".rstrip(), LABEL - 1)
            line = [("▸ " if odd else "  ", Colour.BAD), (f"{label} ", Colour.ACCENT if odd else Colour.STRONG),
                    (f"{mark} {text}", colour)]  # fmt: skip
            items.append(Item((line,), frozenset(ranks), (number, text)))
        return items

    def _heading(self, progress: LaunchProgress) -> list[Piece]:
        source = next(iter(progress.last.values())).source
        more = f" and {count(len(progress.last) - 1, 'other')}" if len(progress.last) > 1 else ""
        since = min((waiting.since for waiting in progress.waiting.values() if waiting.since is not None), default=None)
        return [
            (f"group {progress.label or 'unnamed'}", Colour.STRONG),
            (f"  {count(len(progress.members), 'rank')}", Colour.INFO),
            (f"  waits for {age(self.model.now - since)}" if since is not None else "", Colour.WARN),
            (f"  from {source}{more}", Colour.DIM),
        ]

    def _totals(self) -> list[Piece]:
        if not self.made:
            return [(" reading the groups" if self.making else " no collective seen", Colour.STRONG)]
        odd = sum(bool(progress.behind) for progress in self.made)
        return [
            (f" {count(len(self.made), 'group')}", Colour.STRONG),
            (f"  ▸ {odd} with ranks behind" if odd else "", Colour.BAD),
        ]

    def enter(self) -> Place | None:
        """The ranks of the line, in the panel of ranks."""
        ranks = self.selection().ranks
        return Place("ranks", f"rank={folded(ranks)}", min(ranks)) if ranks else None

    def whole_text(self) -> str:
        """All tables as text."""
        return text_of([line for item in self.view.items for line in item.lines])
