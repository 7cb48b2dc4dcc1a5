"""The full stack of one rank after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.phrasing import ranks_on
from tui.dialogs.base import TextDialog
from tui.texts.stacked import full_stack


class StackDialog(TextDialog):
    """Left and right go to the other ranks of the group."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "beside(-1)", "rank before"),
        Binding("right,l", "beside(1)", "next rank"),
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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A rank that is alone has no other beside it."""
        return len(self._ranks) > 1 if action == "beside" else super().check_action(action, parameters)

    def action_beside(self, step: int) -> None:
        """Show another rank of the group."""
        self._at = (self._at + step) % len(self._ranks)
        rank = self._ranks[self._at]
        self.rename(self._title())
        self.text.show(full_stack(rank, self._dumps[rank]))
