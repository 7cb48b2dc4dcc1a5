"""Remote text: made harmless, cut and padded to exact widths whatever it holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.looks.text import cells, clip, fit, harmless, short_paths, wrap

NASTY = (
    "[/markup]",
    "[bold]x[/]",
    "\x1b[31mred\x1b]0;title\x07",
    "\x9b31m",
    "a\u202eb\u2066c",
    "日本語テキスト",
    "e\u0301\u0301\u0301",
    "\ud800",
    "a\tb\r\nc",
    "👩‍👩‍👧",
    "\x00\x7f",
)


@pytest.mark.parametrize("text", NASTY)
def test_nothing_is_left_that_a_terminal_would_obey(text: str) -> None:
    clean = harmless(text)
    assert clean.isprintable()
    clean.encode()


def test_of_a_long_path_its_first_and_last_part_are_told() -> None:
    told = "rank 3 is in load (/home/ada/projects/llm/src/data/loader.py:88), /tmp/x stays"
    assert short_paths(told) == "rank 3 is in load (/home/…/loader.py:88), /tmp/x stays"


@given(st.text(max_size=40), st.integers(0, 30), st.sampled_from(["left", "right"]))
def test_fit_gives_exactly_the_width(text: str, width: int, align: str) -> None:
    shown = fit(text, width, "left" if align == "left" else "right")
    assert cell_len(shown) == width
    assert shown.isprintable()


def test_fit_cuts_with_an_ellipsis_and_pads_on_the_other_side() -> None:
    assert fit("abcdef", 4) == "abc…"
    assert fit("ab", 4) == "ab  "
    assert fit("ab", 4, "right") == "  ab"
    assert fit("日本語", 4) == "日 …"


@given(st.text(max_size=80), st.integers(1, 30))
def test_wrapped_lines_fit_and_lose_nothing_but_blanks(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(cells(line) <= max(2, width) for line in lines)
    kept = "".join("".join(lines).split())
    assert kept == "".join("".join(harmless(part) for part in text.splitlines()).split())


def test_a_word_that_fits_into_a_line_is_not_broken() -> None:
    assert wrap("all_reduce at step (train.py:207)", 18) == ["all_reduce at step", "(train.py:207)"]
    assert wrap("step (train.py:207)", 18) == ["step", "(train.py:207)"]
    assert wrap("at /a/path/that/is/longer/than/a/line", 12)[0] == "at /a/path/t"


@given(text=st.text(max_size=60), width=st.integers(0, 40))
def test_what_is_clipped_fits_and_is_whole_where_it_does(text: str, width: int) -> None:
    shown = clip(text, width)
    assert cells(shown) <= width
    if cells(harmless(text)) <= width:
        assert shown == harmless(text)
