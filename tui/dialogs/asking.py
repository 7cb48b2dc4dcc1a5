"""Dialogs that want an answer: a confirmation, one of several things, whether a host key is trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content as Prompt
from textual.widgets import OptionList

from collectors.fleet.sink import HostKeyQuestion
from tui.dialogs.base import Dialog
from tui.looks.text import harmless
from tui.looks.theme import Background, Colour
from tui.widgets.lines import Content
from tui.widgets.textview import TextView

if TYPE_CHECKING:
    from textual.app import App


class ConfirmDialog(Dialog[bool]):
    """Says in one line what will be done; ``e`` shows the exact command, only ``y`` runs it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "run"),
        Binding("e", "exact", "show command"),
        Binding("c", "copy", "copy command"),
        Binding("n,escape,q,enter", "answer(False)", "cancel"),
        Binding("up,k", "scroll('up')", "up", show=False),
        Binding("down,j", "scroll('down')", "down", show=False),
    ]

    def __init__(self, title: str, brief: str, command: str, why: str = "") -> None:
        super().__init__(title)
        self._command = command
        self._brief: Content = [[(brief, Colour.STRONG)], *[[(line, Colour.TEXT)] for line in why.splitlines()]]
        self._exact: Content = [[], *[[("  ", Colour.TEXT), (line, Colour.INFO)] for line in command.splitlines()]]
        self.text = TextView(self._brief, ground=Background.BAR)

    def content(self) -> ComposeResult:
        """What will be done, and why it asks."""
        yield self.text

    def action_exact(self) -> None:
        """Show the exact command, or hide it again."""
        hidden = self.text.content == self._brief
        self.text.show_from([*self._brief, *self._exact] if hidden else self._brief)

    def action_copy(self) -> None:
        """Copy the command."""
        self.copy(self._command, "command")

    def action_scroll(self, how: str) -> None:
        """Scroll by lines."""
        self.text.move("up" if how == "up" else "down")


class HostKeyDialog(ConfirmDialog, inherit_bindings=False):
    """An unknown host key: trusted and remembered, or refused."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "trust and remember"),
        Binding("n,escape,q,enter", "answer(False)", "refuse"),
    ]

    def __init__(self, question: HostKeyQuestion) -> None:
        brief = f"{question.host} is in no known_hosts file"
        super().__init__(f"{question.node}: unknown host key", brief, "", f"\n{question.key}")


class Choices(OptionList):
    """A list whose cursor moves by letters, too."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "cursor_up", "Up", show=False),
        Binding("j", "cursor_down", "Down", show=False),
        Binding("enter", "select", "choose"),
    ]


class ChoiceDialog(Dialog[int | None]):
    """Its answer is the place in the list; ``notes`` are shown below and cannot be chosen."""

    WIDE = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "answer(None)", "cancel")]

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


def _prompt(title: str, detail: str) -> Prompt:
    """Title and details, a line each."""
    lines = [harmless(line) for line in detail.splitlines() if line.strip()]
    return Prompt.assemble(
        Prompt.styled(harmless(title), "bold"), *(Prompt.styled(f"\n  {line}", "dim") for line in lines)
    )


async def ask_on_screen(app: App[None], question: HostKeyQuestion) -> bool | None:
    """Show the question over whatever else is shown and wait for the answer; None when the screen is closing."""
    if not app.is_running:
        return None
    answer: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()

    def take(said: bool | None) -> None:
        if not answer.done():
            answer.set_result(said)

    app.push_screen(HostKeyDialog(question), take)
    if (said := await answer) is False:
        app.notify(f"{harmless(question.node)}: A in 6 Nodes asks again", severity="warning", markup=False, timeout=20)
    return said
