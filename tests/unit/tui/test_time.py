"""What the line of time is drawn from: lines of characters, scales, windows that move by whole columns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.screens import Paper
from tui.timeline import Timeline
from tui.widgets.chart import BRAILLE, Stretch, braille, rounded_up

STRETCHES = st.lists(
    st.none() | st.tuples(st.floats(0, 90), st.floats(0, 10)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=60,
)


@given(stretches=STRETCHES, rows=st.integers(1, 4))
def test_lines_have_their_size_whatever_is_drawn(stretches: list[Stretch], rows: int) -> None:
    lines = braille(stretches, rows, 100.0)
    assert [len(line) for line in lines] == [(len(stretches) + 1) // 2] * rows
    assert all(BRAILLE <= ord(cell) < BRAILLE + 256 for line in lines for cell in line)


def test_a_step_is_one_line_and_a_gap_none() -> None:
    high, low = (4.0, 4.0), (0.0, 0.0)
    assert braille([high, high, low, low], 1, 4.0) == ["⠉⣇"]
    assert braille([low, None, low, low], 1, 4.0) == ["⡀⣀"]


@given(value=st.floats(1e-6, 1e15), binary=st.booleans())
def test_the_top_of_a_scale_is_round_and_near(value: float, binary: bool) -> None:
    assert value * 0.999 <= rounded_up(value, binary=binary) <= 2 * value * 1.001


@given(passed=st.integers(0, 5000), columns=st.integers(10, 200), back=st.integers(0, 100_000))
def test_the_moment_that_is_shown_is_on_view_and_columns_stand_still(passed: int, columns: int, back: int) -> None:
    paper = Paper(nodes=1, gpus=1)
    session = paper.session(ticks=1)
    session.tick()
    paper.clock.now += 1000
    line = Timeline(session)
    before = line.window(columns)
    assert before.end >= line.now > before.end - 2 * before.step
    paper.clock.now += passed
    after = line.window(columns)
    moved = (after.begin - before.begin) / (2 * before.step)
    assert moved == pytest.approx(round(moved), abs=1e-3)
    line.at = line.now - back
    window = line.window(columns)
    assert window.begin - 1e-3 <= line.at <= window.end + 1e-3
