"""Lists: one of several things to do is chosen, or the columns of a table that are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, SelectionList
from textual.widgets.selection_list import Selection

from tui.dialogs.base import Dialog, TextView
from tui.looks.text import harmless
from tui.looks.theme import Tone

MOVES: list[BindingType] = [
    Binding("up,k", "cursor_up", "Up", show=False),
    Binding("down,j", "cursor_down", "Down", show=False),
    Binding("home,g", "first", "First", show=False),
    Binding("end,G", "last", "Last", show=False),
    Binding("pageup", "page_up", "Page up", show=False),
    Binding("pagedown", "page_down", "Page down", show=False),
]


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry, and what has to be known before it is chosen."""

    title: str
    detail: str = ""

    def prompt(self) -> Content:
        """Title and details, a line each."""
        lines = [harmless(line) for line in self.detail.splitlines() if line.strip()]
        return Content.assemble(
            Content.styled(harmless(self.title), "bold"), *(Content.styled(f"\n  {line}", "dim") for line in lines)
        )


class Choices(OptionList, inherit_bindings=False):
    """A list whose cursor moves by letters, too."""

    BINDINGS: ClassVar[list[BindingType]] = [*MOVES, Binding("enter", "select", "choose")]


class ChoiceDialog(Dialog[int | None]):
    """Its answer is the place in the list; ``notes`` are shown below and cannot be chosen."""

    WIDE = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "leave", "leave it")]

    def __init__(self, title: str, choices: Sequence[Choice], notes: Sequence[str] = ()) -> None:
        super().__init__(title)
        self._choices, self._notes = choices, notes

    def content(self) -> ComposeResult:
        """The list, and the notes."""
        yield Choices(*(choice.prompt() for choice in self._choices), markup=False, compact=True)
        if self._notes:
            yield TextView([[(note, Tone.WARN)] for note in self._notes])

    def on_mount(self) -> None:
        """Move in the list."""
        self.query_one(Choices).focus()

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """Choose what the cursor is at."""
        self.dismiss(event.option_index)

    def action_leave(self) -> None:
        """Choose nothing."""
        self.dismiss(None)


class ColumnLine(NamedTuple):
    """A column as the list shows it."""

    key: str
    title: str
    help: str
    fixed: bool
    """It cannot be hidden."""


class ColumnList(SelectionList[str], inherit_bindings=False):
    """A list in which only Space shows or hides."""

    BINDINGS: ClassVar[list[BindingType]] = [*MOVES, Binding("space", "select", "show or hide")]


class ColumnsDialog(Dialog[tuple[str, bool] | None]):
    """Space shows or hides a column at once; the answer is a column to go to, and whether it is to order the rows."""

    WIDE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose(False)", "go to it"),
        Binding("s", "choose(True)", "order by it"),
        Binding("escape,q", "leave", "close"),
    ]

    def __init__(self, columns: Sequence[ColumnLine], hidden: Set[str], hide: Callable[[Set[str]], None]) -> None:
        super().__init__("Columns")
        self._columns, self._hidden, self._hide = columns, hidden, hide

    def content(self) -> ComposeResult:
        """The list."""
        yield ColumnList(
            *(
                Selection(self._prompt(column), column.key, column.key not in self._hidden, disabled=column.fixed)
                for column in self._columns
            ),
            compact=True,
        )

    def _prompt(self, column: ColumnLine) -> Content:
        """Whether it is shown, in a sign, too: the list itself says it by colour alone."""
        width = max(len(column.title) for column in self._columns)
        sign = " " if column.key in self._hidden else "✔"
        return Content(f"{sign} {column.title:<{width}}  {column.help}")

    def on_mount(self) -> None:
        """Move in the list."""
        self.query_one(ColumnList).focus()

    @on(SelectionList.SelectedChanged)
    def show(self, event: SelectionList.SelectedChanged[str]) -> None:
        """Show the chosen columns, hide the others."""
        self._hidden = {column.key for column in self._columns} - set(event.selection_list.selected)
        self._hide(self._hidden)
        for place, column in enumerate(self._columns):
            event.selection_list.replace_option_prompt_at_index(place, self._prompt(column))

    def action_choose(self, order: bool) -> None:
        """Go to the column, or order by it."""
        at = self.query_one(ColumnList).highlighted
        self.dismiss(None if at is None else (self._columns[at].key, order))

    def action_leave(self) -> None:
        """Leave everything as it is now."""
        self.dismiss(None)
