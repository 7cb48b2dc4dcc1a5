"""Wrapped text, under a title within a panel or alone in a dialog."""

from __future__ import annotations

from textual.strip import Strip

from tui.looks.text import cells, harmless, wrap
from tui.looks.theme import Background, Colour
from tui.widgets.lines import Content, Lines, Piece, ruled, strip_of


class TextView(Lines):
    """Lines of pieces, wrapped to the width; as high as they need, if there is room."""

    def __init__(
        self,
        content: Content | None = None,
        *,
        id: str | None = None,  # noqa: A002 (Textual's name)
        ground: Background = Background.PLAIN,
        hint: str = "",
    ) -> None:
        super().__init__(id=id)
        self.content = content or []
        self.title = ""
        """Fixed first line; empty: no such line."""
        self._ground, self._hint = ground, hint
        self._broken: Content = []

    def show(self, content: Content, title: str = "") -> None:
        """Replace the content, at the same scroll position."""
        if (content, title) != (self.content, self.title):
            self.content, self.title = content, title
            self.resized()
            self.redraw()

    def show_from(self, content: Content, *, end: bool = False) -> None:
        """Replace the content, scrolled to its beginning or its end."""
        self.show(content)
        self.scroll_to(y=self.virtual_size.height if end else 0, animate=False, force=True)

    def resized(self) -> None:
        """Wrap the lines for the present width."""
        self._broken = self._lines(self.size.width)
        self.resize_to(len(self._broken) + bool(self.title))

    def _lines(self, width: int) -> Content:
        """Wrapped lines, without empty ones at the end; one cell stays free for the scrollbar."""
        end = max((place for place, line in enumerate(self.content, 1) if line), default=0)
        return [part for line in self.content[:end] for part in broken(line, max(20, width - 1))]

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """The number of wrapped lines at this width."""
        del container, viewport
        return max(1, len(self._lines(width)))

    def paint(self, y: int, width: int) -> Strip:
        """The title, then one line."""
        if self.title and y == 0:
            return strip_of(
                ruled(f" {self.title} ", f" {self._hint} ─" if self._hint else "", width), width, self.palette
            )
        place = self.top + y - bool(self.title)
        line = self._broken[place] if place < len(self._broken) else []
        return strip_of(line, width, self.palette, self._ground)


def broken(line: list[Piece], width: int) -> Content:
    """Wrap a line into lines of at most ``width`` cells, continued below the text after a label or below its start."""
    if sum(cells(harmless(text)) for text, _ in line) <= width:
        return [line]
    hang = " " * _hang([harmless(text) for text, _ in line], width // 3)
    lines: Content = [[]]
    used = 0
    for raw, colour in line:
        text = harmless(raw)
        while used + cells(text) > width:
            head = _head(text, width - used, fresh=not any(part.strip() for part, _ in lines[-1]))
            if head:
                lines[-1].append((head, colour))
            text = text[len(head) :].lstrip()
            lines.append([(hang, Colour.DIM)])
            used = cells(hang)
        if text:
            lines[-1].append((text, colour))
            used += cells(text)
    return lines if any(text.strip() for text, _ in lines[-1]) else lines[:-1]


def _hang(texts: list[str], most: int) -> int:
    """Indentation of continued lines: all labels, else the first label, else the first text's own indentation."""
    labels = [
        sum(map(cells, texts[:end])) for end in (len(texts) - 1, 1) if len(texts) > 1 and texts[end - 1][-1:] == " "
    ]
    return next((label for label in labels if label <= most), min(most, cells(texts[0]) - cells(texts[0].lstrip())))


def _head(text: str, room: int, *, fresh: bool) -> str:
    """The words that fit into ``room`` cells; only a ``fresh`` line cuts a word that is longer than the line."""
    if room <= 0:
        return ""
    head = wrap(text, room)[0]
    cut = len(head) < len(text) and not text[len(head)].isspace() and not head[-1:].isspace()
    return "" if cut and not fresh else head
