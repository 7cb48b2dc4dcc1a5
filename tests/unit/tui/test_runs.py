"""Lines out of pieces."""

from __future__ import annotations

from rich.style import Style

from tui.widgets.runs import Runs

RED, BLUE = Style(color="red"), Style(color="blue")


def test_neighbours_of_one_style_are_one_segment() -> None:
    line = Runs(RED, "a")
    for text, style in (("b", RED), ("", BLUE), ("c", RED), ("d", BLUE), (" ", BLUE)):
        line.add(text, style)
    assert [(text, style) for text, style, _ in line.strip(5)] == [("abc", RED), ("d ", BLUE)]


def test_a_line_of_nothing_has_no_segment() -> None:
    assert list(Runs(RED).strip(0)) == []
