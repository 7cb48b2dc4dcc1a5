"""Base of all dialogs, and the one that shows text."""

from __future__ import annotations

from bisect import bisect_right
from typing import ClassVar, TypeVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.strip import Strip

from tui.looks.text import cells
from tui.looks.theme import Ground, Tone
from tui.ordering.filter import FilterError
from tui.scene import Staged
from tui.widgets.banner import Banner
from tui.widgets.bar import Bar, KeyBar
from tui.widgets.breaking import broken
from tui.widgets.filterline import FilterLine
from tui.widgets.lines import Lines, Piece, strip_of

T = TypeVar("T")

MOST_NARROW = 20
"""Cells up to which lines are cut rather than broken."""

FRAME = 7
"""Lines of a dialog that are not its text."""


class Text(Lines):
    """Lines of pieces that can be scrolled, broken where they are too long; as high as they need and there is."""

    DEFAULT_CSS = """
    Text { height: auto; }
    """

    class Clicked(Message):
        """A line of the content was clicked, or clicked twice."""

        def __init__(self, place: int, *, twice: bool) -> None:
            super().__init__()
            self.place, self.twice = place, twice

    def __init__(self, content: list[list[Piece]]) -> None:
        super().__init__()
        self.content = content
        self._broken: tuple[int, list[list[Piece]], list[int]] = (0, [], [])
        """The width that lines were broken for, the lines, and where each one of the content begins."""
        self.words = ""
        """What is looked for."""
        self._at = -1
        """The line that was found last."""
        self.resize_to(20, len(content))

    def show(self, content: list[list[Piece]]) -> None:
        """Show something else, from its beginning."""
        self.content = content
        self.changed()
        self.scroll_to(y=0, animate=False, force=True)

    def changed(self) -> None:
        """The content has more lines, or others."""
        self._broken = (0, [], [])
        self.resize_to(20, len(self._lines(self.size.width)))
        self.repaint()

    def bring_line(self, place: int) -> None:
        """Scroll so that a line of the content is visible."""
        self._lines(self.size.width)
        if place < len(self._broken[2]):
            self.bring(self._broken[2][place])

    def _lines(self, width: int) -> list[list[Piece]]:
        """The content in lines that fit, a cell left free for the scrollbar; without empty ones at its end."""
        if self._broken[0] != width:
            lines: list[list[Piece]] = []
            starts: list[int] = []
            end = max((place for place, line in enumerate(self.content, 1) if line), default=0)
            for line in self.content[:end]:
                starts.append(len(lines))
                lines += broken(line, width - 1) if width > MOST_NARROW else [line]
            self._broken = (width, lines, starts)
        return self._broken[1]

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """As many lines as there are when they are this wide."""
        del container, viewport
        return max(1, len(self._lines(width)))

    def find(self, words: str, step: int = 0) -> bool:
        """Mark lines that have these words, and go to the next (1) or last one (-1), or the first; False: none has."""
        self.words = words.casefold()
        places = [place for place, line in enumerate(self._lines(self.size.width)) if self._has(line)]
        if places:
            here = self._at if step else -1
            later = [place for place in places if place > here] or places
            before = [place for place in places if place < here] or places
            self._at = before[-1] if step < 0 else later[0]
            self.scroll_to(y=max(0, self._at - self.size.height // 2), animate=False, force=True)
        self.repaint()
        return bool(places) or not words

    def _has(self, line: list[Piece]) -> bool:
        return bool(self.words) and self.words in "".join(text for text, _ in line).casefold()

    def on_click(self, event: events.Click) -> None:
        """Say which line it was."""
        row = self.top + event.y
        if row < len(self._lines(self.size.width)):
            self.post_message(self.Clicked(bisect_right(self._broken[2], row) - 1, twice=event.chain == 2))

    def on_resize(self) -> None:
        """Break the lines for the new width."""
        super().on_resize()
        self.resize_to(20, len(self._lines(self.size.width)))

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        place, lines = self.top + y, self._lines(self.size.width)
        line = lines[place] if place < len(lines) else []
        return strip_of(line, width, self.ink, Ground.CURSOR if self._has(line) else Ground.BAR)


LABEL = 20
"""Cells of the column of labels; with more than a third of a line what goes on would not be set under its beginning."""


class Dialog(ModalScreen[T]):
    """A box over the panels. ``BOX`` is its width in cells; it shrinks on a smaller screen.

    What the first line of the screen says stays free and goes on, in two lines where it needs them: nobody should miss
    a verdict because a dialog is open. Short messages stand below the box, which leaves them room while they are there:
    what is asked, and the keys that answer, are never covered.
    """

    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 60%; overflow: hidden; }
    Dialog > #box {
        width: 76; max-width: 100%; height: auto;
        background: $panel; border: round $primary; padding: 0 1;
    }
    Dialog > #box.-wide { width: 96%; max-width: 150; }
    Dialog Input, Dialog Input:focus {
        border: none; height: 1; padding: 0; background: $background; margin: 1 0 0 0;
    }
    Dialog #title { margin-bottom: 1; }
    Dialog #keys { margin-top: 1; }
    Dialog #keys.-hidden { display: none; }
    Dialog FilterLine { margin-top: 1; }
    Dialog > ToastRack { layer: default; max-height: 25%; }
    Dialog Toast { width: 100%; max-width: 100%; margin: 0; }
    Dialog FilterLine Input, Dialog FilterLine Input:focus { margin: 0; background: $panel; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("slash", "find", "Find")]

    def __init__(self, title: str, *, wide: bool = False) -> None:
        super().__init__()
        self.heading = title
        self._wide = wide
        self._told = 0
        """Lines of short messages."""

    def content(self) -> ComposeResult:
        """The widgets between title and keys."""
        raise NotImplementedError

    def keys(self) -> list[Piece]:
        """The line that says what can be pressed."""
        return [("Esc", Tone.ACCENT), (" close", Tone.DIM)]

    def compose(self) -> ComposeResult:
        """The verdict; title, content, keys."""
        yield Banner(cast("Staged", self.app).scene, lines=2)
        with Vertical(id="box", classes="-wide" if self._wide else ""):
            yield Bar(id="title", ground=Ground.BAR)
            yield from self.content()
            yield KeyBar(id="keys", ground=Ground.BAR)

    def on_resize(self) -> None:
        """Leave room for what the first line says, title, keys and border."""
        room = self.size.height - self.query_one(Banner).lines - self._told
        self.query_one("#box").styles.max_height = max(1, room)
        for text in self.query(Text):
            text.styles.max_height = max(3, room - FRAME)

    def on_banner_grown(self) -> None:
        """The verdict takes another line, or leaves one."""
        self.on_resize()

    def _after_layout(self, _: object) -> None:
        """Messages have come, or are gone."""
        heights = [self.size.height - toast.region.y for toast in self.query("Toast") if toast.region]
        told = max(heights, default=0)
        if told != self._told:
            self._told = told
            self.on_resize()

    async def action_find(self) -> None:
        """Say that there is nothing to be found here."""
        self.app.notify("/ filters panels and finds words in texts: not here", markup=False, timeout=4)

    def on_mount(self) -> None:
        """Fill in what does not change."""
        self.screen_layout_refresh_signal.subscribe(self, self._after_layout)
        self.query_one("#title", Bar).show([(self.heading, Tone.STRONG)])
        self.query_one("#keys", Bar).show(self.keys())


class TextDialog(Dialog[None]):
    """Text to read, scroll and copy."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "close", "Close"),
        Binding("up,k", "scroll(-1)", "Up"),
        Binding("down,j", "scroll(1)", "Down"),
        Binding("pageup,ctrl+b", "scroll(-20)", "Page up"),
        Binding("pagedown,space,ctrl+f", "scroll(20)", "Page down"),
        Binding("home,g", "scroll(-100000)", "Top"),
        Binding("end,G", "scroll(100000)", "Bottom"),
        Binding("c", "copy", "Copy"),
        Binding("n", "find_next(1)", "Next"),
        Binding("N", "find_next(-1)", "Before"),
    ]

    def __init__(self, title: str, content: list[list[Piece]], *, wide: bool = True) -> None:
        super().__init__(title, wide=wide)
        self.text = Text(content)
        self.query_text = ""
        """What was looked for last."""

    def content(self) -> ComposeResult:
        """The text."""
        yield self.text

    def keys(self) -> list[Piece]:
        """Reading keys."""
        return [
            ("↑↓", Tone.ACCENT), (" scroll  ", Tone.DIM), ("/", Tone.ACCENT), (" find  ", Tone.DIM),
            ("c", Tone.ACCENT), (" copy  ", Tone.DIM), ("Esc", Tone.ACCENT), (" close", Tone.DIM),
        ]  # fmt: skip

    async def action_find(self) -> None:
        """Type what is looked for in place of the keys."""
        if not self.query(FilterLine):
            keys = self.query_one("#keys", Bar)
            await self.query_one("#box").mount(FilterLine(self, lambda: keys.set_class(False, "-hidden")))
            keys.set_class(True, "-hidden")

    def set_filter(self, text: str) -> None:
        """Go to the first line that has these words. Raises :class:`FilterError` where none has."""
        if not self.text.find(text):
            raise FilterError(f"no line has “{text}”")
        self.query_text = text

    def fields(self) -> list[str]:
        """Any words are looked for."""
        return []

    def action_find_next(self, step: int) -> None:
        """Go to the next line that has them, or the one before."""
        if self.query_text:
            self.text.find(self.query_text, step)

    def action_scroll(self, step: int) -> None:
        """Scroll by lines."""
        self.text.scroll_to(y=self.text.top + step, animate=False, force=True)

    def action_copy(self) -> None:
        """Copy everything."""
        self.app.copy_to_clipboard("\n".join("".join(text for text, _ in line) for line in self.text.content))
        self.app.notify("copied", markup=False, timeout=2)

    def action_close(self) -> None:
        """Close."""
        self.dismiss(None)


def facts_text(facts: list[tuple[str, str]]) -> list[list[Piece]]:
    """Lay out labels and values in two columns; a label that is too long for its own has a line. The dialog breaks."""
    labels = [width for label, _ in facts if (width := cells(label)) <= LABEL]
    width = max(labels, default=0)
    lines: list[list[Piece]] = []
    for label, value in facts:
        shown = label
        if cells(label) > LABEL:
            lines.append([(label, Tone.DIM)])
            shown = ""
        for text in value.splitlines() or [""]:
            lines.append([(f"{shown.rjust(width)}  ", Tone.DIM), (text, Tone.TEXT)])
            shown = ""
    return lines
