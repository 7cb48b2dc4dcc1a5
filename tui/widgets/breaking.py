"""Lines of pieces broken where they are too long, what goes on set under where the text began."""

from __future__ import annotations

from tui.looks.text import cells, harmless, wrap
from tui.looks.theme import Tone
from tui.widgets.lines import Piece


def broken(line: list[Piece], width: int) -> list[list[Piece]]:
    """Lines of at most ``width`` cells; what goes on is set under the text behind a label, else a little further in."""
    if sum(cells(harmless(text)) for text, _ in line) <= width:
        return [line]
    hang = _hang(line, width)
    lines: list[list[Piece]] = [[]]
    used = 0
    for raw, tone in line:
        text = harmless(raw)
        while used + cells(text) > width:
            head = _head(text, width - used, fresh=not any(part.strip() for part, _ in lines[-1]))
            if head:
                lines[-1].append((head, tone))
            text = text[len(head) :].lstrip()
            lines.append([(" " * hang, Tone.TEXT)])
            used = hang
        if text:
            lines[-1].append((text, tone))
            used += cells(text)
    return lines if any(text.strip() for text, _ in lines[-1]) else lines[:-1]


def _hang(line: list[Piece], width: int) -> int:
    """Cells before lines that go on: the label's where there is one, else the indentation and two more."""
    first = harmless(line[0][0])
    indent = cells(first) - cells(first.lstrip())
    label = cells(first)
    return label if len(line) > 1 and first.endswith(" ") and label <= width // 3 else min(indent + 2, width // 3)


def _head(text: str, room: int, *, fresh: bool) -> str:
    """The words that fit into ``room`` cells; only on a fresh line a word is cut that is longer than the line."""
    if room <= 0:
        return ""
    head = wrap(text, room)[0]
    cut = len(head) < len(text) and not text[len(head)].isspace() and not head[-1:].isspace()
    return "" if cut and not fresh else head
