"""Dialogs that want an answer: a confirmation, one of several things, a line of text, a connection's question."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content as Prompt
from textual.widgets import Input, OptionList

from collectors.fleet.ssh.asking import Question
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
        Binding("y", "answer(True)", "run it"),
        Binding("e", "exact", "exact command"),
        Binding("c", "copy", "copy it"),
        Binding("n,escape,q", "answer(False)", "leave it"),
        Binding("enter", "enter", "leave it", show=False),
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
        self.copy(self._command, "the command was")

    def action_scroll(self, how: str) -> None:
        """Scroll by lines."""
        self.text.move("up" if how == "up" else "down")

    def action_enter(self) -> None:
        """Do nothing, and say so: elsewhere Enter goes on."""
        self.app.notify("nothing was done: only y runs it", markup=False)
        self.dismiss(False)


class HostKeyDialog(Dialog[str]):
    """An unknown host key: accepted for good, for now, or not; the empty answer refuses."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('yes')", "accept and remember"),
        Binding("o", "answer('once')", "accept once"),
        Binding("n,escape,q,enter", "answer('')", "refuse"),
    ]

    def __init__(self, title: str, content: Content) -> None:
        super().__init__(title)
        self._content = content

    def content(self) -> ComposeResult:
        """The key."""
        yield TextView(self._content, ground=Background.BAR)


class LineDialog(Dialog[str | None]):
    """One line of text, hidden while it is typed when it is a secret."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "answer"),
        Binding("escape", "answer(None)", "give up"),
    ]

    def __init__(self, title: str, content: Content, *, secret: bool = False, empty: bool = False) -> None:
        super().__init__(title)
        self._content, self._secret, self._empty = content, secret, empty

    def content(self) -> ComposeResult:
        """What is asked, and the input."""
        yield TextView(self._content, ground=Background.BAR)
        yield Input(password=self._secret, select_on_focus=False, compact=True)

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def action_submit(self) -> None:
        """Answer."""
        value = self.query_one(Input).value
        if value or self._empty:
            self.dismiss(value)


class Choices(OptionList, inherit_bindings=False):
    """A list whose cursor moves by letters, too."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor_up", "Up", show=False),
        Binding("down,j", "cursor_down", "Down", show=False),
        Binding("home,g", "first", "First", show=False),
        Binding("end,G", "last", "Last", show=False),
        Binding("enter", "select", "choose"),
    ]


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


def _prompt(title: str, detail: str) -> Prompt:
    """Title and details, a line each."""
    lines = [harmless(line) for line in detail.splitlines() if line.strip()]
    return Prompt.assemble(
        Prompt.styled(harmless(title), "bold"), *(Prompt.styled(f"\n  {line}", "dim") for line in lines)
    )


TOLD_SECONDS = 20.0
_TITLES = {
    "passphrase": "passphrase of a key",
    "password": "password",
    "keyboard": "question of the server",
}


class ScreenAsker:
    """Puts the questions of connections on the screen, one after the other, whatever else is shown."""

    def __init__(self, app: App[None]) -> None:
        self._app = app
        self._turn = asyncio.Lock()

    def tell(self, text: str) -> None:
        """Show it for some seconds."""
        if self._app.is_running:
            self._app.notify(harmless(text), severity="warning", markup=False, timeout=TOLD_SECONDS)

    async def ask(self, question: Question) -> str | None:
        """Show the question and wait for the answer; None when it is declined or the screen is closing."""
        async with self._turn:
            if not self._app.is_running:
                return None
            lines: Content = [[(question.prompt, Colour.STRONG)]]
            lines += [[], [(question.detail, Colour.TEXT)]] if question.detail else []
            dialog: HostKeyDialog | LineDialog
            if question.kind == "host_key":
                dialog = HostKeyDialog(f"{question.node}: unknown host key", lines)
            else:
                title = f"{question.node}: {_TITLES[question.kind]}"
                # a server's question may rightly be answered with an empty line
                dialog = LineDialog(title, lines, secret=question.secret, empty=question.kind == "keyboard")
            answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

            def take(said: str | None) -> None:
                if not answer.done():
                    answer.set_result(said if question.kind != "host_key" else said or None)

            self._app.push_screen(dialog, take)
            said = await answer
            if said is None:
                self.tell(f"{question.node}: A in 6 Nodes asks again")
            return said
