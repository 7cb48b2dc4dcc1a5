"""Remote text: made harmless, cut and padded to exact widths whatever it holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.looks.text import cells, clip, fit, harmless, wrap


@given(st.text(max_size=40), st.integers(0, 30), st.sampled_from(["left", "right"]))
def test_fit_gives_exactly_the_width(text: str, width: int, align: str) -> None:
    shown = fit(text, width, "left" if align == "left" else "right")
    assert cell_len(shown) == width
    assert shown.isprintable()


@given(st.text(max_size=80), st.integers(1, 30))
def test_wrapped_lines_fit_and_lose_nothing_but_blanks(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(cells(line) <= max(2, width) for line in lines)
    kept = "".join("".join(lines).split())
    assert kept == "".join("".join(harmless(part) for part in text.splitlines()).split())


@given(text=st.text(max_size=60), width=st.integers(0, 40))
def test_what_is_clipped_fits_and_is_whole_where_it_does(text: str, width: int) -> None:
    shown = clip(text, width)
    assert cells(shown) <= width
    if cells(harmless(text)) <= width:
        assert shown == harmless(text)
