"""The base of all panels: methods that actions call."""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

from textual.containers import Vertical

from tui.view_model import ViewModel
from tui.widgets.lines import Content, Lines, Move

Fact = tuple[str, str]
"""A label and a value of the details; an empty label continues the one before."""


Titled = tuple[str, Content]
"""A title and a text to show in a dialog."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where to go: a panel, its scope, and the row to select.

    ``scope`` is written in the filter language. ``select`` is the row's key.
    """

    panel: str
    scope: str = ""
    select: Hashable = None
    query: str = ""
    """The filter to restore when going back."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The item under the cursor, as actions use it."""

    node: str | None = None
    ranks: Set[int] = frozenset()
    title: str = ""
    facts: Sequence[Fact] = ()
    """Its details; may be empty."""
    text: str = ""
    """Text to copy; empty: title and facts."""


class Panel(Vertical):
    """One panel. Its methods serve actions; ``CAN`` names the capabilities that it has."""

    NAME: ClassVar[str] = ""
    CAN: ClassVar[frozenset[str]] = frozenset()
    """Capabilities that actions need: ``filter``, ``sort``, ``enter``, ``ranks`` …"""

    def __init__(self, model: ViewModel, name: str = "") -> None:
        super().__init__(id=f"panel-{name or self.NAME}", classes=name or self.NAME)
        self.model = model
        self.scope = ""
        self.query_text = ""
        """The typed filter."""

    @property
    def can(self) -> frozenset[str]:
        """The present capabilities."""
        return self.CAN

    @property
    def main(self) -> Lines:
        """The widget that gets the focus when the panel comes to the front."""
        raise NotImplementedError

    def draw(self) -> None:
        """Draw the latest state; called once a tick while the panel is on top."""
        raise NotImplementedError

    def on_resize(self) -> None:
        """Draw again, once the widgets inside know their sizes."""
        self.call_after_refresh(self.draw)

    def shown(self) -> None:
        """The panel came to the front."""

    def hidden(self) -> None:
        """Another panel came to the front."""

    def renew(self) -> None:
        """Another moment is shown: drop what was computed for the last one."""

    def move(self, how: Move) -> None:
        """Move the cursor of the main part."""
        self.main.move(how)

    def enter(self) -> Place | Titled | None:
        """The place to go to from the item under the cursor, or a text to show; None if there is neither."""
        return None

    def set_filter(self, text: str) -> None:
        """Show only what the filter lets through. Raises :class:`~tui.ordering.filter.FilterError`."""

    def fields(self) -> list[str]:
        """Names of the fields for the filter."""
        return []

    def columns_help(self) -> list[tuple[str, str]]:
        """Title and meaning of every column, for the help."""
        return []

    def narrowed(self) -> str:
        """Scope and typed filter, as one filter."""
        return f"{self.scope} {self.query_text}".strip()

    def here(self) -> Hashable:
        """Key of the row under the cursor, for going back."""
        return None

    def select(self, key: Hashable) -> None:
        """Put the cursor on a row."""

    def selection(self) -> Selection:
        """The item under the cursor."""
        return Selection()
