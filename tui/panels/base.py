"""What every panel can be asked to do by an action."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from textual.containers import Vertical
from textual.message import Message

from collectors.samples.stacks import StackDump
from tui.looks.text import cells
from tui.looks.theme import Colour
from tui.view_model import ViewModel
from tui.widgets.lines import Content, Lines, Move

Fact = tuple[str, str]
"""A label and a value of the details; an empty label goes on with the one before."""


class ColumnTold(NamedTuple):
    """A column in words."""

    key: str
    title: str
    help: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where to go: a panel, what it is narrowed down to, and the row to stand on.

    ``scope`` is written in the filter language; Esc takes it away. ``select`` is the row's key.
    """

    panel: str
    scope: str = ""
    select: Hashable = None
    what: str = ""
    """What is stood on, in words for the way back; the scope says it where there is one."""
    at: float | None = None
    """The moment to be shown there; None leaves time alone."""


class StacksOpened(Message):
    """The full stacks of a group's ranks are wanted."""

    def __init__(self, dumps: Mapping[int, Sequence[StackDump]], nodes: Mapping[int, str]) -> None:
        super().__init__()
        self.dumps, self.nodes = dumps, nodes


class Panel(Vertical):
    """One panel. The methods answer actions; what a panel cannot do it does not name in ``CAN``."""

    NAME: ClassVar[str]
    CAN: ClassVar[frozenset[str]] = frozenset()
    """Capabilities that actions ask for: ``filter``, ``sort``, ``mark``, ``enter``, ``copy``, ``node``, ``ranks`` …"""

    WHY_NO_FILTER: ClassVar[str] = ""
    """What is said of the filter's key where the panel has no ``filter``."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(id=f"panel-{self.NAME}")
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

    @property
    def focused(self) -> Lines:
        """The part that keys move in."""
        focused = self.screen.focused
        return focused if isinstance(focused, Lines) and focused in self.query(Lines) else self.main

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
        """Move the cursor, or scroll."""
        self.focused.move(how)

    def enter(self) -> Place | None:
        """Go into what is under the cursor: the place to go to, or None when it was done here."""
        return None

    def leave(self) -> bool:
        """Leave what was gone into within the panel; False when nothing was."""
        return False

    def set_filter(self, text: str) -> None:
        """Show only what the filter lets through. Raises :class:`~tui.ordering.filter.FilterError`."""

    def fields(self) -> list[str]:
        """Names that a filter can use here."""
        return []

    def columns_told(self) -> list[ColumnTold]:
        """Every column, for help and palette."""
        return []

    def go_column(self, key: str) -> None:
        """Bring a column into view."""

    def mark(self) -> None:
        """Mark what is under the cursor."""

    def mark_all(self) -> None:
        """Mark everything shown."""

    def hint(self, live: str) -> str:
        """What stands in place of what is not there; where nobody can be asked, no key brings more."""
        session = self.model.session
        if session.can_act:
            return live
        return "nothing of this was known at this moment" if session.live else "nothing of this is in these files"

    def none_of(self, what: str) -> str:
        """Title over what is not there; more may come where somebody can be asked alone."""
        return f" no {what} yet" if self.model.session.can_act else f" no {what}"

    def narrowed(self) -> str:
        """Scope and filter together, as one filter."""
        return f"{self.scope} {self.query_text}".strip()

    def here(self) -> Hashable:
        """Key of the row under the cursor, to come back to."""
        return None

    def select(self, key: Hashable) -> None:
        """Stand on a row."""

    def node(self) -> str | None:
        """Name of the node under the cursor."""
        return None

    def chosen_nodes(self) -> list[str]:
        """Names of marked nodes, or of the one under the cursor."""
        return []

    def chosen_ranks(self) -> set[int]:
        """Marked ranks, or the one under the cursor."""
        return set()

    def details(self) -> tuple[str, list[Fact]] | None:
        """Title and facts of what is under the cursor."""
        return None

    def text(self) -> str:
        """What ``copy`` takes."""
        return ""


LABEL = 20
"""Cells of the column of labels: a longer label has a line of its own."""


def facts_text(facts: Sequence[Fact]) -> Content:
    """Lay out labels and values in two columns; a label that is too long for its own has a line of its own."""
    width = max((cells(label) for label, _ in facts if cells(label) <= LABEL), default=0)
    lines: Content = []
    for label, value in facts:
        if cells(label) > LABEL:
            lines.append([(label, Colour.DIM)])
        for place, text in enumerate(value.splitlines() or [""]):
            shown = "" if place or cells(label) > LABEL else label
            lines.append([(f" {shown:>{width}}  ", Colour.DIM), (text, Colour.TEXT)])
    return lines
