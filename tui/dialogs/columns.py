"""The columns of a table: which are shown, what they mean; one is gone to or orders the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.dialogs.base import Dialog, Text
from tui.looks.theme import Tone
from tui.widgets.lines import Piece


class ColumnLine(NamedTuple):
    """A column as the list shows it."""

    key: str
    title: str
    help: str
    fixed: bool
    """It cannot be hidden."""
    silent: bool = False
    """No row has had a value in it so far: it is hidden unless somebody asks for it."""


class ChosenColumn(NamedTuple):
    """What the list was closed with: a column to go to, or to order the rows by."""

    key: str
    order: bool


class ColumnsDialog(Dialog[ChosenColumn | None]):
    """Space shows or hides at once, Enter goes to a column, ``s`` orders by it; letters are not typed here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "Up"),
        Binding("down,j", "step(1)", "Down"),
        Binding("home,g", "step(-1000)", "Top"),
        Binding("end,G", "step(1000)", "Bottom"),
        Binding("space", "show", "Show or hide"),
        Binding("enter", "choose(False)", "Go there"),
        Binding("s", "choose(True)", "Order by it"),
        Binding("escape,q", "leave", "Leave"),
    ]

    def __init__(
        self,
        columns: Sequence[ColumnLine],
        hidden: Set[str],
        hide: Callable[[Set[str]], None],
    ) -> None:
        super().__init__("Columns", wide=True)
        self._columns, self._hidden, self._hide = tuple(columns), set(hidden), hide
        self._at = 0
        self._text = Text(self._lines())

    def content(self) -> ComposeResult:
        """The list."""
        yield self._text

    def keys(self) -> list[Piece]:
        """Showing, going, ordering."""
        return [
            ("Space", Tone.ACCENT), (" show or hide  ", Tone.DIM), ("Enter", Tone.ACCENT), (" go to it  ", Tone.DIM),
            ("s", Tone.ACCENT), (" order by it  ", Tone.DIM), ("Esc", Tone.ACCENT), (" close", Tone.DIM),
        ]  # fmt: skip

    def _lines(self) -> list[list[Piece]]:
        width = max((len(column.title) for column in self._columns), default=0)
        lines: list[list[Piece]] = []
        for place, column in enumerate(self._columns):
            here = place == self._at
            box = "[ ] " if column.key in self._hidden else "[x] "
            help_ = f"no value so far{'; ' if column.help else ''}{column.help}" if column.silent else column.help
            lines.append(
                [
                    (("> " if here else "  ") + box, Tone.ACCENT if here else Tone.DIM),
                    (f"{column.title:<{width}}  ", Tone.STRONG if here else Tone.TEXT),
                    (help_, Tone.DIM),
                ]
            )
        return lines

    def _show(self) -> None:
        self._text.show(self._lines())
        self._text.bring_line(self._at)

    def action_step(self, step: int) -> None:
        """Go up or down."""
        self._at = min(len(self._columns) - 1, max(0, self._at + step))
        self._show()

    def on_text_clicked(self, event: Text.Clicked) -> None:
        """Go to the column that was clicked; twice shows or hides it."""
        self.action_step(event.place - self._at)
        if event.twice:
            self.action_show()

    def action_show(self) -> None:
        """Show or hide the column."""
        column = self._columns[self._at]
        if not column.fixed:
            self._hidden ^= {column.key}
            self._hide(self._hidden)
        self.action_step(1)

    def action_choose(self, order: bool) -> None:
        """Go to the column, or order by it."""
        self.dismiss(ChosenColumn(self._columns[self._at].key, order))

    def action_leave(self) -> None:
        """Leave everything as it is now."""
        self.dismiss(None)
