"""Dialogs that want an answer: a confirmation of what will be done, a connection's question, a line of text."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from collectors.fleet.ssh.asking import Question
from tui.dialogs.base import Dialog, Text
from tui.intent import Intent
from tui.looks.text import harmless, wrap
from tui.looks.theme import Tone
from tui.widgets.bar import Bar
from tui.widgets.lines import Content, Piece

if TYPE_CHECKING:
    from textual.app import App

WIDTH = 70
"""Cells of text in these dialogs."""

TOLD_SECONDS = 20.0


class ConfirmDialog(Dialog[bool]):
    """Says in one line what will be done; ``e`` shows the exact command, only ``y`` runs it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape,q", "answer(False)", "No"),
        Binding("enter", "enter", "No"),
        Binding("e", "exact", "Exact command"),
        Binding("c", "copy", "Copy the command"),
        Binding("up,k", "scroll(-1)", "Up"),
        Binding("down,j", "scroll(1)", "Down"),
    ]

    def __init__(self, title: str, intent: Intent, why: str = "") -> None:
        super().__init__(title)
        self._intent, self._why = intent, why
        self._exact = False
        self._text = Text(self._lines())

    def content(self) -> ComposeResult:
        """What will be done, and why it asks."""
        yield self._text

    def _lines(self) -> Content:
        lines: Content = [[(self._intent.brief, Tone.STRONG)]]
        lines += [[(line, Tone.TEXT)] for line in self._why.splitlines()]
        if self._exact:
            lines += [[], *[[("  ", Tone.TEXT), (line, Tone.INFO)] for line in self._intent.command.splitlines()]]
        return lines

    def keys(self) -> list[Piece]:
        """Yes or no, or the command first."""
        shown = [("c", "copy it"), ("e", "hide it"), ("↑↓", "scroll")] if self._exact else [("e", "exact command")]
        keys = [("y", "run it"), *shown, ("n", "leave it")]
        return [piece for key, what in keys for piece in ((key, Tone.ACCENT), (f" {what}  ", Tone.DIM))]

    def action_exact(self) -> None:
        """Show the exact command, or hide it again."""
        self._exact = not self._exact
        self._text.show(self._lines())
        self.query_one("#keys", Bar).show(self.keys())

    def action_copy(self) -> None:
        """Copy the command."""
        self.app.copy_to_clipboard(self._intent.command)
        self.app.notify("the command was copied", markup=False, timeout=2)

    def action_scroll(self, step: int) -> None:
        """Scroll by lines."""
        self._text.scroll_to(y=self._text.top + step, animate=False, force=True)

    def action_answer(self, answer: bool) -> None:
        """Answer."""
        self.dismiss(answer)

    def action_enter(self) -> None:
        """Do nothing, and say so: elsewhere Enter goes on."""
        self.app.notify("nothing was done: only y runs it", markup=False)
        self.dismiss(False)


class LeaveDialog(Dialog[str]):
    """Asked once before the screen is left while the alarm is loud; the answer is ``leave``, ``report`` or ``stay``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,y,enter,ctrl+q,ctrl+c", "answer('leave')", "Leave"),
        Binding("x", "answer('report')", "Report, then leave"),
        Binding("n,escape", "answer('stay')", "Stay"),
    ]

    def __init__(self, verdict: str) -> None:
        super().__init__("Leave hangtop?")
        self._verdict = verdict

    def content(self) -> ComposeResult:
        """What goes on."""
        yield Text(
            [
                [(self._verdict, Tone.STRONG)],
                [],
                [("The job is left as it is. x writes a report of all of it here first.", Tone.TEXT)],
            ]
        )

    def keys(self) -> list[Piece]:
        """Three answers."""
        return [
            ("q", Tone.ACCENT), (" leave  ", Tone.DIM), ("x", Tone.ACCENT), (" report, then leave  ", Tone.DIM),
            ("Esc", Tone.ACCENT), (" stay", Tone.DIM),
        ]  # fmt: skip

    def action_answer(self, answer: str) -> None:
        """Answer."""
        self.dismiss(answer)


class HostKeyDialog(Dialog[str | None]):
    """An unknown host key: accepted for good, for now, or not."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('yes')", "Accept and remember"),
        Binding("o", "answer('once')", "Accept once"),
        Binding("n,escape,q,enter", "answer('')", "Refuse"),
    ]

    def __init__(self, question: Question) -> None:
        super().__init__(f"{question.node}: unknown host key")
        self._question = question

    def content(self) -> ComposeResult:
        """What the far side showed."""
        yield Text(_question_text(self._question))

    def keys(self) -> list[Piece]:
        """Three answers."""
        return [
            ("y", Tone.ACCENT), (" accept and remember  ", Tone.DIM), ("o", Tone.ACCENT), (" accept once  ", Tone.DIM),
            ("n", Tone.ACCENT), (" refuse", Tone.DIM),
        ]  # fmt: skip

    def action_answer(self, answer: str) -> None:
        """Answer; nothing refuses."""
        self.dismiss(answer or None)


class LineDialog(Dialog[str | None]):
    """One line of text, hidden while it is typed when it is a secret."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", "Give up")]

    def __init__(self, title: str, lines: list[list[Piece]], *, secret: bool = False, empty: bool = False) -> None:
        super().__init__(title)
        self._lines, self._secret, self._empty = lines, secret, empty

    def content(self) -> ComposeResult:
        """What is asked, and the input."""
        yield Text(self._lines)
        yield Input(password=self._secret, select_on_focus=False)

    def on_mount(self) -> None:
        """Type at once."""
        super().on_mount()
        self.query_one(Input).focus()

    def keys(self) -> list[Piece]:
        """Answer or give up."""
        return [("Enter", Tone.ACCENT), (" answer  ", Tone.DIM), ("Esc", Tone.ACCENT), (" give up", Tone.DIM)]

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer."""
        event.stop()
        if event.value or self._empty:
            self.dismiss(event.value)

    def action_give_up(self) -> None:
        """No answer."""
        self.dismiss(None)


def _question_text(question: Question) -> list[list[Piece]]:
    lines: list[list[Piece]] = [[(text, Tone.STRONG)] for text in wrap(question.prompt, WIDTH)]
    if question.detail:
        lines += [[], *[[(text, Tone.TEXT)] for text in wrap(question.detail, WIDTH)]]
    return lines


_TITLES = {
    "passphrase": "passphrase of a key",
    "password": "password",
    "keyboard": "question of the server",
    "reuse": "a password for other hosts",
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
            answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
            dialog: Dialog[str | None]
            if question.kind == "host_key":
                dialog = HostKeyDialog(question)
            else:
                title = f"{question.node}: {_TITLES[question.kind]}"
                # a server's question may rightly be answered with an empty line
                dialog = LineDialog(
                    title, _question_text(question), secret=question.secret, empty=question.kind == "keyboard"
                )

            def take(said: str | None) -> None:
                if not answer.done():
                    answer.set_result(said)

            self._app.push_screen(dialog, take)
            said = await answer
            if said is None and question.kind != "reuse":
                self.tell(f"{question.node}: A in 6 Nodes asks again")
            return said
