"""Base of all dialogs, and the one that shows text."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Footer, Input, Static

from tui.looks.text import cells, harmless
from tui.looks.theme import Ground, Tone
from tui.widgets.breaking import broken
from tui.widgets.lines import Content, Lines, Move, Piece, strip_of, text_of

T = TypeVar("T")

LABEL = 20
"""Cells of the column of labels: a longer label has a line of its own."""
FRAME = 6
"""Lines of a dialog that are not its text: borders, title and keys."""
FREE = 2
"""First lines of the screen, which say the verdict."""


class TextView(Lines):
    """Lines of pieces, broken where they are too long; as high as they need and there is."""

    def __init__(self, content: Content) -> None:
        super().__init__()
        self.content = content
        self.words = ""
        """What is looked for, in lower case."""
        self._broken: Content = []

    def show(self, content: Content, *, at_end: bool = False) -> None:
        """Show something else, from its beginning or up to its end."""
        self.content = content
        self.resized()
        self.repaint()
        self.scroll_to(y=self.virtual_size.height if at_end else 0, animate=False, force=True)

    def resized(self) -> None:
        """Break the lines for this width."""
        self._broken = self._lines(self.size.width)
        self.resize_to(len(self._broken))

    def _lines(self, width: int) -> Content:
        """Lines that fit, without empty ones at the end; a cell is left free for the scrollbar."""
        end = max((place for place, line in enumerate(self.content, 1) if line), default=0)
        return [part for line in self.content[:end] for part in (broken(line, width - 1) if width > LABEL else [line])]

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """As many lines as there are when they are this wide."""
        del container, viewport
        return max(1, len(self._lines(width)))

    def find(self, words: str, step: int = 0) -> bool:
        """Mark lines that have these words and go to the next (1), the one before (-1) or the first; False: none."""
        self.words = words.casefold()
        found = [place for place, line in enumerate(self._broken) if self._has(line)]
        if found:
            middle = self.top + self.size.height // 2
            later = [place for place in found if place > middle] or found
            before = [place for place in found if place < middle] or found
            place = found[0] if not step else later[0] if step > 0 else before[-1]
            self.scroll_to(y=max(0, place - self.size.height // 2), animate=False, force=True)
        self.repaint()
        return bool(found) or not words

    def _has(self, line: list[Piece]) -> bool:
        return bool(self.words) and self.words in text_of([line]).casefold()

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        place = self.top + y
        line = self._broken[place] if place < len(self._broken) else []
        return strip_of(line, width, self.ink, Ground.CURSOR if self._has(line) else Ground.BAR)


class Dialog(ModalScreen[T]):
    """A box over the panels. Its own bindings stand in its last line, and are pressed there by a click.

    The first lines of the screen stay free: nobody should miss a verdict because a dialog is open.
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
        """Leave the first lines of the screen free."""
        room = self.size.height - FREE
        self.query_one("#box").styles.max_height = max(1, room)
        for part in self.query("TextView, OptionList"):
            part.styles.max_height = max(3, room - FRAME)

    def rename(self, title: str) -> None:
        """Give it another title."""
        self.query_one("#title", Static).update(harmless(title))


class TextDialog(Dialog[None]):
    """Text to read, scroll, search and copy."""

    WIDE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move('up')", "Up", show=False),
        Binding("down,j", "move('down')", "Down", show=False),
        Binding("pageup,ctrl+b", "move('page_up')", "Page up", show=False),
        Binding("pagedown,space,ctrl+f", "move('page_down')", "Page down", show=False),
        Binding("home,g", "move('first')", "Top", show=False),
        Binding("end,G", "move('last')", "Bottom", show=False),
        Binding("slash", "find", "find"),
        Binding("n", "find_next(1)", "next", show=False),
        Binding("N", "find_next(-1)", "before", show=False),
        Binding("c", "copy", "copy"),
        Binding("escape,q,enter", "close", "close"),
    ]

    def __init__(self, title: str, content: Content) -> None:
        super().__init__(title)
        self.text = TextView(content)

    def content(self) -> ComposeResult:
        """The text, and the line where words to find are typed."""
        yield self.text
        yield Input(placeholder="words to find, Enter keeps them: n next, N before", compact=True, id="find")

    def on_mount(self) -> None:
        """Keys are the dialog's, until words are typed."""
        self.query_one(Input).display = False
        self.set_focus(self.text)

    def action_move(self, how: Move) -> None:
        """Scroll."""
        self.text.move(how)

    def action_find(self) -> None:
        """Type what is looked for."""
        self.query_one(Input).display = True
        self.query_one(Input).focus()

    @on(Input.Changed, "#find")
    def look_for(self, event: Input.Changed) -> None:
        """Go to the first line with these words."""
        if not self.text.find(event.value):
            self.notify(f"no line has “{event.value}”", severity="warning", markup=False, timeout=2)

    @on(Input.Submitted, "#find")
    def keep_words(self) -> None:
        """Leave the line; ``n`` and ``N`` go on."""
        self.query_one(Input).display = False
        self.set_focus(self.text)

    def action_find_next(self, step: int) -> None:
        """Go to the next line that has the words, or the one before."""
        if self.text.words:
            self.text.find(self.text.words, step)

    def action_copy(self) -> None:
        """Copy everything."""
        self.app.copy_to_clipboard(text_of(self.text.content))
        self.notify("copied", markup=False, timeout=2)

    def action_close(self) -> None:
        """Leave the line of words, or close."""
        if self.query_one(Input).has_focus:
            self.keep_words()
        else:
            self.dismiss(None)


def facts_text(facts: list[tuple[str, str]]) -> Content:
    """Lay out labels and values in two columns; a label that is too long for its own has a line of its own."""
    width = max((cells(label) for label, _ in facts if cells(label) <= LABEL), default=0)
    lines: Content = []
    for label, value in facts:
        shown = label
        if cells(label) > LABEL:
            lines.append([(label, Tone.DIM)])
            shown = ""
        for text in value.splitlines() or [""]:
            lines.append([(f"{shown.rjust(width)}  ", Tone.DIM), (text, Tone.TEXT)])
            shown = ""
    return lines
