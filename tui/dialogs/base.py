"""The base of all dialogs, and dialogs of text: a fixed text, and the progress and answer of a probe."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from tui.looks.text import harmless
from tui.looks.theme import Background, Colour
from tui.widgets.lines import Content, Move, text_of
from tui.widgets.textview import TextView

T = TypeVar("T")

FRAME = 6
"""Lines of a dialog besides its text: borders, title and keys."""
FREE = 2
"""Lines at the top of the screen that show the verdict."""


class Dialog(ModalScreen[T]):
    """A box over the panels, with its keys in the last line.

    The first lines of the screen stay free, so that an open dialog does not hide the verdict.
    """

    WIDE: ClassVar[bool] = False

    def __init__(self, title: str) -> None:
        super().__init__()
        self.heading = harmless(title)

    def content(self) -> ComposeResult:
        """The widgets between title and keys."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Title, content, keys."""
        with Vertical(id="box", classes="-wide" if self.WIDE else ""):
            yield Static(self.heading, id="title", markup=False)
            yield from self.content()
            yield Footer(show_command_palette=False, compact=True)

    def on_resize(self) -> None:
        """Limit the height, so that the first lines of the screen stay free."""
        room = self.size.height - FREE
        self.query_one("#box").styles.max_height = max(1, room)
        for part in self.query("TextView, OptionList"):
            part.styles.max_height = max(3, room - FRAME)

    def action_answer(self, answer: T | None) -> None:
        """Close with this answer."""
        self.dismiss(answer)

    def copy(self, text: str, what: str) -> None:
        """Copy a text and show a message."""
        self.app.copy_to_clipboard(text)
        self.notify(f"{what} copied", markup=False, timeout=2)


class ScrolledDialog(Dialog[T]):
    """A dialog around one text, which scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move('up')", "Up", show=False),
        Binding("down,j", "move('down')", "Down", show=False),
        Binding("pageup,ctrl+b", "move('page_up')", "Page up", show=False),
        Binding("pagedown,space,ctrl+f", "move('page_down')", "Page down", show=False),
        Binding("home,g", "move('first')", "Top", show=False),
        Binding("end,G", "move('last')", "Bottom", show=False),
    ]

    def __init__(self, title: str, content: Content) -> None:
        super().__init__(title)
        self.text = TextView(content, ground=Background.BAR)

    def content(self) -> ComposeResult:
        """The text."""
        yield self.text

    def action_move(self, how: Move) -> None:
        """Scroll."""
        self.text.move(how)


class TextDialog(ScrolledDialog[None]):
    """Text to read, scroll and copy."""

    WIDE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "copy", "copy"),
        Binding("escape,q,enter", "close", "close"),
    ]

    def action_copy(self) -> None:
        """Copy everything."""
        self.copy(text_of(self.text.content), "text")

    def action_close(self) -> None:
        """Close."""
        self.dismiss(None)


class RunningDialog(TextDialog):
    """Shows progress, then the answer. While it runs, Escape calls ``stop``; after that, Escape closes."""

    def __init__(self, title: str, stop: Callable[[], object]) -> None:
        super().__init__(f"{title}   (Esc stops and cleans up on the nodes)", [])
        self.running = True
        self._stop = stop
        self._began = time.monotonic()

    def say(self, line: str) -> None:
        """Add a line of progress with the elapsed seconds."""
        took = f"{time.monotonic() - self._began:6.1f} s  "
        self.text.show_from([*self.text.content, [(took, Colour.DIM), (line, Colour.TEXT)]], end=True)

    def finish(self, title: str, content: Content) -> None:
        """Replace the progress by the answer."""
        self.running = False
        if self.is_attached:
            self.query_one("#title", Static).update(harmless(title))
            self.text.show_from(content)

    def action_close(self) -> None:
        """Stop the run, or close after its end."""
        if self.running:
            self.say("stopping …")
            self._stop()
        else:
            super().action_close()
