"""Dialogs that want an answer: a confirmation of what will be done, a connection's question, a line of text."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

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
        self.app.copy_to_clipboard(self._command)
        self.notify("the command was copied", markup=False, timeout=2)

    def action_scroll(self, how: str) -> None:
        """Scroll by lines."""
        self.text.move("up" if how == "up" else "down")

    def action_enter(self) -> None:
        """Do nothing, and say so: elsewhere Enter goes on."""
        self.app.notify("nothing was done: only y runs it", markup=False)
        self.dismiss(False)


class AnswerDialog(Dialog[str]):
    """Some lines, and an answer by one key; subclasses bind the keys."""

    def __init__(self, title: str, content: Content) -> None:
        super().__init__(title)
        self._content = content

    def content(self) -> ComposeResult:
        """The lines."""
        yield TextView(self._content, ground=Background.BAR)


class LeaveDialog(AnswerDialog):
    """Asked once before the screen is left while the alarm is loud."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,y,enter", "answer('leave')", "leave"),
        Binding("ctrl+q,ctrl+c", "answer('leave')", "leave", show=False),
        Binding("x", "answer('report')", "report, then leave"),
        Binding("escape,n", "answer('stay')", "stay"),
    ]


class HostKeyDialog(AnswerDialog):
    """An unknown host key: accepted for good, for now, or not; the empty answer refuses."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('yes')", "accept and remember"),
        Binding("o", "answer('once')", "accept once"),
        Binding("n,escape,q,enter", "answer('')", "refuse"),
    ]


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
