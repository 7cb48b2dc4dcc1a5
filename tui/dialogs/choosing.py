"""Lists: one of several things to do is chosen, or the columns of a table that are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, SelectionList
from textual.widgets.selection_list import Selection

from tui.dialogs.base import Dialog
from tui.looks.text import harmless
from tui.looks.theme import Background, Colour
from tui.widgets.columns import Column, ColumnsInView
from tui.widgets.textview import TextView

MOVES: list[BindingType] = [
    Binding("up,k", "cursor_up", "Up", show=False),
    Binding("down,j", "cursor_down", "Down", show=False),
    Binding("home,g", "first", "First", show=False),
    Binding("end,G", "last", "Last", show=False),
    Binding("pageup", "page_up", "Page up", show=False),
    Binding("pagedown", "page_down", "Page down", show=False),
]


class Choices(OptionList, inherit_bindings=False):
    """A list whose cursor moves by letters, too."""

    BINDINGS: ClassVar[list[BindingType]] = [*MOVES, Binding("enter", "select", "choose")]


class ChoiceDialog(Dialog[int | None]):
    """Its answer is the place in the list; ``notes`` are shown below and cannot be chosen."""

    WIDE = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "answer(None)", "leave it")]

    def __init__(self, title: str, choices: Sequence[tuple[str, str]], notes: Sequence[str] = ()) -> None:
        """``choices`` are titles, and what has to be known before one is chosen."""
        super().__init__(title)
        self._choices, self._notes = choices, notes

    def content(self) -> ComposeResult:
        """The list, and the notes."""
        yield Choices(*(_prompt(title, detail) for title, detail in self._choices), markup=False, compact=True)
        if self._notes:
            yield TextView([[(note, Colour.WARN)] for note in self._notes], ground=Background.BAR)

    def on_mount(self) -> None:
        """Move in the list."""
        self.query_one(Choices).focus()

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """Choose what the cursor is at."""
        self.dismiss(event.option_index)


def _prompt(title: str, detail: str) -> Content:
    """Title and details, a line each."""
    lines = [harmless(line) for line in detail.splitlines() if line.strip()]
    return Content.assemble(
        Content.styled(harmless(title), "bold"), *(Content.styled(f"\n  {line}", "dim") for line in lines)
    )


class ColumnList(SelectionList[str], inherit_bindings=False):
    """A list in which only Space shows or hides."""

    BINDINGS: ClassVar[list[BindingType]] = [*MOVES, Binding("space", "select", "show or hide")]


class ColumnsDialog(Dialog[tuple[str, bool] | None]):
    """Space shows or hides a column at once; the answer is a column to go to, and whether it is to order the rows."""

    WIDE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose(False)", "go to it"),
        Binding("s", "choose(True)", "order by it"),
        Binding("escape,q", "answer(None)", "close"),
    ]

    def __init__(self, view: ColumnsInView[Any], hide: Callable[[Set[str]], None]) -> None:
        super().__init__("Columns")
        self._columns, self._fixed, self._silent, self._hide = view.every, view.fixed, view.silent, hide
        self._hidden: Set[str] = view.hidden

    def content(self) -> ComposeResult:
        """The list."""
        yield ColumnList(
            *(
                Selection(
                    self._line(column),
                    column.key,
                    column.key not in self._hidden,
                    column.key,
                    column.key in self._fixed,
                )
                for column in self._columns
            ),
            compact=True,
        )

    def _line(self, column: Column[Any]) -> Content:
        """Whether it is shown, in a sign, too: the list itself says it by colour alone."""
        width = max(len(each.title or each.key) for each in self._columns)
        sign = " " if column.key in self._hidden else "✔"
        none = "no value so far; " if column.key in self._silent else ""
        return Content(f"{sign} {column.title or column.key:<{width}}  {none}{column.help}")

    def on_mount(self) -> None:
        """Move in the list."""
        self.query_one(ColumnList).focus()

    @on(SelectionList.SelectedChanged)
    def show(self, event: SelectionList.SelectedChanged[str]) -> None:
        """Show the chosen columns, hide the others."""
        self._hidden = {column.key for column in self._columns} - set(event.selection_list.selected)
        self._hide(self._hidden)
        for place, column in enumerate(self._columns):
            event.selection_list.replace_option_prompt_at_index(place, self._line(column))

    def action_choose(self, order: bool) -> None:
        """Go to the column, or order by it."""
        at = self.query_one(ColumnList).highlighted
        self.dismiss(None if at is None else (self._columns[at].key, order))
