"""A drawing as SVG 1.1 for the incident report: text that can be searched, no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.verdict.chain_text import chain_lines
from tui.looks.text import harmless
from tui.waits.drawing import DrawnArrow, DrawnBox, drawing

ACROSS, DOWN = 8.4, 18.0
"""Points of a cell; characters of a font with one width are 0.6 of its size wide."""
SIZE = 14
MARGIN = 16.0
HEADING = 40.0
WIDTH, HEIGHT = 150, 60
"""Cells that the picture may take."""
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
INK, DIM, BLAMED, GROUND = "#1f2933", "#5b6670", "#b3261e", "#ffffff"


def as_svg(boxes: Sequence[WaitBox], title: str, *, cleaned: Callable[[str], str] = str) -> str:
    """Draw the verdict's boxes. ``cleaned`` is asked about each text: the report takes secrets out."""
    drawn = drawing(boxes, WIDTH, HEIGHT)

    def told(text: str) -> str:
        return escape(harmless(cleaned(text.rstrip())))

    width = max(drawn.width * ACROSS, len(harmless(title)) * ACROSS) + 2 * MARGIN
    height = drawn.height * DOWN + HEADING + 2 * MARGIN
    # the whole texts, of which boxes show what they have room for
    described = "\n".join(map(told, chain_lines(boxes)))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family={quoteattr(FONT)} font-size="{SIZE}">'
    )
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        head,
        f"<title>{told(title)}</title>",
        f"<desc>{described}</desc>",
        f'<rect width="100%" height="100%" fill="{GROUND}"/>',
        f'<text x="{MARGIN}" y="{MARGIN + SIZE}" font-weight="bold" fill="{INK}">{told(title)}</text>',
        *(line for arrow in drawn.arrows for line in _arrow(arrow, told)),
        *(line for box in drawn.boxes for line in _box(box, told)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _x(cell: float) -> float:
    return MARGIN + cell * ACROSS


def _y(line: float) -> float:
    return MARGIN + HEADING + line * DOWN


def _arrow(arrow: DrawnArrow, told: Callable[[str], str]) -> Iterator[str]:
    colour, width = (BLAMED, 2.0) if arrow.heavy else (DIM, 1.2)
    (x1, y1), *middle, (x2, y2) = arrow.points
    points = [(x1 + 1.0, y1 + 0.5), *((x + 0.5, y + 0.5) for x, y in middle), (x2 + 0.6, y2 + 0.5)]
    path = " ".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
    tip, middle_y = _x(x2), _y(y2 + 0.5)
    yield (
        f'<polygon points="{tip:.1f},{middle_y:.1f} {tip + 8:.1f},{middle_y - 4.5:.1f} {tip + 8:.1f},'
        f'{middle_y + 4.5:.1f}" fill="{colour}"/>'
    )
    if arrow.label:
        at, row = arrow.label_at
        yield (
            f'<rect x="{_x(at - 0.5):.1f}" y="{_y(row):.1f}" width="{(len(arrow.label) + 1) * ACROSS:.1f}" '
            f'height="{DOWN}" fill="{GROUND}"/>'
        )
        yield f'<text x="{_x(at):.1f}" y="{_y(row + 0.77):.1f}" fill="{DIM}">{told(arrow.label)}</text>'


def _box(drawn: DrawnBox, told: Callable[[str], str]) -> Iterator[str]:
    blamed = drawn.box.blamed
    left, top = _x(drawn.x), _y(drawn.y + 0.4)
    width, height = drawn.width * ACROSS, (drawn.height - 0.8) * DOWN
    yield (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" '
        f'fill="{BLAMED if blamed else GROUND}" stroke="{BLAMED if blamed else INK}" '
        f'stroke-width="{3 if blamed else 1.2}"/>'
    )
    ink = GROUND if blamed else INK
    yield (
        f'<text x="{_x(drawn.x + 1.5):.1f}" y="{_y(drawn.y + 0.4) + 4:.1f}" font-size="11" font-weight="bold" '
        f'fill="{BLAMED if blamed else DIM}" stroke="{GROUND}" stroke-width="4" paint-order="stroke">'
        f"{told(drawn.box.letter)}</text>"
    )
    for line, text in enumerate(drawn.texts):
        weight = ' font-weight="bold"' if line == 0 else ""
        y = _y(drawn.y + 1.77 + line)
        yield f'<text x="{_x(drawn.x + 2):.1f}" y="{y:.1f}" fill="{ink}"{weight}>{told(text)}</text>'
