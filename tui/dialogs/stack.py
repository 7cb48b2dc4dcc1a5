"""The full stack of one rank after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.phrasing import ranks_on
from tui.dialogs.base import TextDialog
from tui.looks.theme import Tone
from tui.texts.stacked import full_stack
from tui.widgets.bar import Bar
from tui.widgets.lines import Piece


class StackDialog(TextDialog):
    """Left and right go to the other ranks of the group."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "beside(-1)", "Rank before"),
        Binding("right,l", "beside(1)", "Next rank"),
    ]

    def __init__(self, dumps: Mapping[int, Sequence[StackDump]], nodes: Mapping[int, str]) -> None:
        self._dumps, self._node_of = dumps, nodes
        self._ranks = sorted(dumps)
        self._at = 0
        super().__init__(self._title(), full_stack(self._ranks[0], dumps[self._ranks[0]]))

    def _title(self) -> str:
        rank = self._ranks[self._at]
        of = f"   ({self._at + 1} of {len(self._ranks)} in this group)" if len(self._ranks) > 1 else ""
        return f"{ranks_on([rank], [self._node_of.get(rank, 'an unknown node')])}{of}"

    def keys(self) -> list[Piece]:
        """Reading keys, and the way to the other ranks."""
        beside: list[Piece] = [("←→", Tone.ACCENT), (" other ranks  ", Tone.DIM)] if len(self._ranks) > 1 else []
        return [*beside, *super().keys()]

    def action_beside(self, step: int) -> None:
        """Show another rank of the group."""
        self._at = (self._at + step) % len(self._ranks)
        rank = self._ranks[self._at]
        self.query_one("#title", Bar).show([(self._title(), Tone.STRONG)])
        self.text.show(full_stack(rank, self._dumps[rank]))
