"""Dialogs with an answer: a confirmation, a choice, trust in a host key."""

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
from tui.dialogs.base import Dialog, ScrolledDialog
from tui.looks.text import harmless
from tui.looks.theme import Background, Colour
from tui.widgets.lines import Content
from tui.widgets.textview import TextView

if TYPE_CHECKING:
    from textual.app import App


class ConfirmDialog(ScrolledDialog[bool]):
    """Describes an action in one line; ``e`` shows the exact command, only ``y`` runs it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "run"),
        Binding("e", "exact", "show command"),
        Binding("c", "copy", "copy command"),
        Binding("n,escape,q,enter", "answer(False)", "cancel"),
    ]

    def __init__(self, title: str, brief: str, command: str, why: str = "") -> None:
        self._command = command
        self._brief: Content = [[(brief, Colour.STRONG)], *[[(line, Colour.TEXT)] for line in why.splitlines()]]
        self._exact: Content = [[], *[[("  ", Colour.TEXT), (line, Colour.INFO)] for line in command.splitlines()]]
        super().__init__(title, self._brief)

    def action_exact(self) -> None:
        """Show or hide the exact command."""
        hidden = self.text.content == self._brief
        self.text.show_from([*self._brief, *self._exact] if hidden else self._brief)

    def action_copy(self) -> None:
        """Copy the command."""
        self.copy(self._command, "command")


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
    """A list whose cursor also moves with ``j`` and ``k``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "cursor_up", "Up", show=False),
        Binding("j", "cursor_down", "Down", show=False),
        Binding("enter", "select", "choose"),
    ]


class ChoiceDialog(Dialog[int | None]):
    """A choice from a list, answered by its index; ``notes`` are shown below the list."""

    WIDE = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "answer(None)", "cancel")]

    def __init__(self, title: str, choices: Sequence[tuple[str, str]], notes: Sequence[str] = ()) -> None:
        """``choices`` are pairs of title and details."""
        super().__init__(title)
        self._choices, self._notes = choices, notes

    def content(self) -> ComposeResult:
        """The list and the notes."""
        yield Choices(*(_prompt(title, detail) for title, detail in self._choices), markup=False, compact=True)
        if self._notes:
            yield TextView([[(note, Colour.WARN)] for note in self._notes], ground=Background.BAR)

    def on_mount(self) -> None:
        """Focus the list."""
        self.query_one(Choices).focus()

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """Answer with the chosen index."""
        self.dismiss(event.option_index)


def _prompt(title: str, detail: str) -> Prompt:
    """The title, and the details in lines below it."""
    lines = [harmless(line) for line in detail.splitlines() if line.strip()]
    return Prompt.assemble(
        Prompt.styled(harmless(title), "bold"), *(Prompt.styled(f"\n  {line}", "dim") for line in lines)
    )


async def ask_on_screen(app: App[None], question: HostKeyQuestion) -> bool | None:
    """Show the question over everything else and wait for the answer; None if the screen is closing."""
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
