"""What a terminal shows after all updates that an application sent it; no drawing of the screen anew."""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.cells import get_character_cell_size
from rich.console import RenderableType
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.screen import Screen

_TOKEN = re.compile(
    r"(?P<narrow>[ -~─-╿▀-▟⠀-⣿]+)|\x1b\[(?P<args>[\d;]*)(?P<kind>[A-Za-z])|(?P<newline>\n)|(?P<char>[^\x1b\n])"
)
"""A run of characters that are one cell each, a control sequence, the end of a line, or any other character."""
JUNK = "¤"
"""What stands in cells that nothing was ever written to: a terminal may show anything there."""


class Cell(NamedTuple):
    """One cell: its character (empty: the right half of a wide one) and the style that it was written in."""

    char: str
    style: str


class Terminal:
    """Cells, changed by what Textual writes to a real terminal."""

    def __init__(self) -> None:
        self.width = self.height = 0
        self.cells: list[list[Cell]] = []
        self.outside: list[str] = []
        """Characters that were written beyond the last column."""

    def resize(self, width: int, height: int) -> None:
        """Another size: nobody knows what stands where afterwards."""
        self.width, self.height = width, height
        self.cells = [[Cell(JUNK, "")] * width for _ in range(height)]

    def write(self, data: str) -> None:
        """Take one update."""
        x = y = 0
        style = ""
        for token in _TOKEN.finditer(data):
            narrow, args, kind, newline, char = token.groups()
            if narrow:
                x = self._put_all(x, y, narrow, style)
            elif kind == "H":
                y, x = (int(part or 1) - 1 for part in (args or "1;1").split(";"))
            elif kind == "m":
                style = "" if args in {"", "0"} else args
            elif newline:
                x, y = 0, y + 1
            elif char:
                x = self._put(x, y, Cell(char, style))

    def _put_all(self, x: int, y: int, text: str, style: str) -> int:
        """Characters of one cell each."""
        room = max(0, self.width - x) if y < self.height else 0
        within, beyond = text[:room], text[room:]
        if within:
            self.cells[y][x : x + len(within)] = [Cell(char, style) for char in within]
        self.outside += beyond
        return x + len(text)

    def _put(self, x: int, y: int, cell: Cell) -> int:
        size = get_character_cell_size(cell.char)
        if x + size > self.width or y >= self.height:
            self.outside.append(cell.char)
            return x + size
        self.cells[y][x] = cell
        if size == 2:
            self.cells[y][x + 1] = Cell("", cell.style)
        return x + size

    def lines(self) -> list[str]:
        """What is on it, line by line."""
        return ["".join(cell.char for cell in row) for row in self.cells]


def attached(app: App[None]) -> Terminal:
    """A terminal that gets every update of the application from now on."""
    terminal, display = Terminal(), app._display

    def shown(screen: Screen[object], renderable: RenderableType | CompositorUpdate | None) -> None:
        if (app.size.width, app.size.height) != (terminal.width, terminal.height):
            terminal.resize(*app.size)
        if isinstance(renderable, CompositorUpdate) and not app._batch_count:
            terminal.write(renderable.render_segments(app.console))
        display(screen, renderable)  # type: ignore[arg-type]  # Textual hands its own updates over as what Rich draws

    app._display = shown  # type: ignore[method-assign]
    return terminal
