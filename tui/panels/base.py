"""What every panel can be asked to do by an action."""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

from textual.containers import Vertical
from textual.message import Message

from tui.view_model import ViewModel
from tui.widgets.lines import Content, Lines, Move

Fact = tuple[str, str]
"""A label and a value of the details; an empty label goes on with the one before."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where to go: a panel, what it is narrowed down to, and the row to stand on.

    ``scope`` is written in the filter language; Esc takes it away. ``select`` is the row's key.
    """

    panel: str
    scope: str = ""
    select: Hashable = None
    query: str = ""
    """What was typed into the filter there, where one comes back."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is under the cursor, as actions take it."""

    node: str | None = None
    ranks: Set[int] = frozenset()
    title: str = ""
    facts: Sequence[Fact] = ()
    """All that is known of it; empty where there are no details."""
    text: str = ""
    """What is copied; empty: title and facts."""


class TextWanted(Message):
    """A text is to be read over the panel."""

    def __init__(self, title: str, content: Content) -> None:
        super().__init__()
        self.title, self.content = title, content


class Panel(Vertical):
    """One panel. The methods answer actions; what a panel cannot do it does not name in ``CAN``."""

    NAME: ClassVar[str] = ""
    CAN: ClassVar[frozenset[str]] = frozenset()
    """Capabilities that actions ask for: ``filter``, ``sort``, ``enter``, ``copy``, ``node``, ``ranks`` …"""

    def __init__(self, model: ViewModel, name: str = "") -> None:
        super().__init__(id=f"panel-{name or self.NAME}", classes=name or self.NAME)
        self.model = model
        self.scope = ""
        self.query_text = ""
        """What was typed into the filter."""

    @property
    def can(self) -> frozenset[str]:
        """What it can do at present."""
        return self.CAN

    @property
    def main(self) -> Lines:
        """The widget that has the focus when the panel comes to the front."""
        raise NotImplementedError

    def draw(self) -> None:
        """Draw the latest state; called once a tick while the panel is on top."""
        raise NotImplementedError

    def on_resize(self) -> None:
        """Lay out anew, once the widgets inside know their sizes."""
        self.call_after_refresh(self.draw)

    def shown(self) -> None:
        """The panel came to the front."""

    def hidden(self) -> None:
        """Another panel came to the front."""

    def renew(self) -> None:
        """Another moment is shown than before: forget what was worked out for the last one."""

    def move(self, how: Move) -> None:
        """Move the cursor of the part that has the focus, or scroll it."""
        focused = self.screen.focused
        (focused if isinstance(focused, Lines) and focused in self.query(Lines) else self.main).move(how)

    def enter(self) -> Place | None:
        """Go into what is under the cursor: the place to go to, or None when it was done here."""
        return None

    def set_filter(self, text: str) -> None:
        """Show only what the filter lets through. Raises :class:`~tui.ordering.filter.FilterError`."""

    def fields(self) -> list[str]:
        """Names that a filter can use here."""
        return []

    def columns_told(self) -> list[tuple[str, str]]:
        """Title and meaning of every column, for the help."""
        return []

    def narrowed(self) -> str:
        """Scope and filter together, as one filter."""
        return f"{self.scope} {self.query_text}".strip()

    def here(self) -> Hashable:
        """Key of the row under the cursor, to come back to."""
        return None

    def select(self, key: Hashable) -> None:
        """Stand on a row."""

    def selection(self) -> Selection:
        """What is under the cursor."""
        return Selection()
