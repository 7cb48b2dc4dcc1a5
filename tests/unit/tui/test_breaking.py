"""Lines of dialogs are broken, never cut, and nothing of them is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui.looks.text import cells, harmless
from tui.looks.theme import Tone
from tui.widgets.breaking import broken
from tui.widgets.lines import Piece

pieces = st.lists(st.tuples(st.text(max_size=60), st.sampled_from(Tone)), min_size=1, max_size=4)


def texts(lines: list[list[Piece]]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def test_what_goes_on_is_set_under_the_text_behind_the_label() -> None:
    line: list[Piece] = [("  /       ", Tone.ACCENT), ("Show only what matches the words of the filter.", Tone.TEXT)]
    assert texts(broken(line, 40)) == ["  /       Show only what matches the", "          words of the filter."]


def test_a_line_that_fits_stays_as_it_is() -> None:
    line: list[Piece] = [("short", Tone.TEXT)]
    assert broken(line, 5) == [line]


def test_a_word_that_is_longer_than_the_line_is_cut_on_a_line_of_its_own() -> None:
    lines = texts(broken([("at ", Tone.DIM), ("x" * 15, Tone.TEXT)], 8))
    assert lines[0].strip() == "at"
    assert all(0 < cells(text) <= 8 for text in lines)
    assert "".join("".join(lines).split()) == "at" + "x" * 15


@given(line=pieces, width=st.integers(21, 80))
def test_no_line_is_too_long_and_no_word_is_lost(line: list[Piece], width: int) -> None:
    lines = texts(broken(line, width))
    assert all(cells(text) <= width for text in map(str.rstrip, map(harmless, lines)))
    whole = "".join(harmless(text) for text, _ in line)
    assert "".join(harmless("".join(lines)).split()) == "".join(whole.split())
