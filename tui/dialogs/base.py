"""Base of all dialogs, and those that show text: an answer, a probe's progress, the stacks of a group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.phrasing import ranks_on
from tui.looks.text import harmless
from tui.looks.theme import Background, Colour
from tui.texts.stacked import full_stack
from tui.widgets.lines import Content, Move, text_of
from tui.widgets.textview import TextView

T = TypeVar("T")

FRAME = 6
"""Lines of a dialog that are not its text: borders, title and keys."""
FREE = 2
"""First lines of the screen, which say the verdict."""


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

    def action_answer(self, answer: T | None) -> None:
        """Close it with this answer."""
        self.dismiss(answer)


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
        self.text = TextView(content, ground=Background.BAR)

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


class RunningDialog(TextDialog):
    """Shows what is said while something runs, then the answer. Escape calls ``stop`` first, then closes."""

    def __init__(self, title: str, stop: Callable[[], object]) -> None:
        super().__init__(f"{title}   (Esc stops it, and cleans up on the nodes)", [])
        self.running = True
        self._stop = stop
        self._began = time.monotonic()

    def say(self, line: str) -> None:
        """Add a line of progress, with the seconds that have gone by."""
        took = f"{time.monotonic() - self._began:6.1f} s  "
        self.text.show_from([*self.text.content, [(took, Colour.DIM), (line, Colour.TEXT)]], end=True)

    def finish(self, title: str, content: Content) -> None:
        """Show the answer in place of the progress."""
        self.running = False
        if self.is_attached:
            self.rename(title)
            self.text.show_from(content)

    def action_close(self) -> None:
        """Stop it; or close, when it has ended."""
        if self.running:
            self.say("stopping …")
            self._stop()
        else:
            super().action_close()


class PagesDialog(TextDialog):
    """Several texts; left and right go from one to the next."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "beside(-1)", "rank before"),
        Binding("right,l", "beside(1)", "next rank"),
    ]

    def __init__(self, titles: Sequence[str], page: Callable[[int], Content]) -> None:
        self._titles, self._page, self._at = titles, page, 0
        super().__init__(self._title(), page(0))

    def _title(self) -> str:
        of = f"   ({self._at + 1} of {len(self._titles)} in this group)" if len(self._titles) > 1 else ""
        return f"{self._titles[self._at]}{of}"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """One that is alone has no other beside it."""
        return len(self._titles) > 1 if action == "beside" else super().check_action(action, parameters)

    def action_beside(self, step: int) -> None:
        """Show another one."""
        self._at = (self._at + step) % len(self._titles)
        self.rename(self._title())
        self.text.show_from(self._page(self._at))


def stack_dialog(dumps: Mapping[int, Sequence[StackDump]], nodes: Mapping[int, str]) -> PagesDialog:
    """The full stack of one rank after the other."""
    ranks = sorted(dumps)
    titles = [ranks_on([rank], [nodes.get(rank, "an unknown node")]) for rank in ranks]
    return PagesDialog(titles, lambda at: full_stack(ranks[at], dumps[ranks[at]]))
