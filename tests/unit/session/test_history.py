"""The history of a job: what the grains hold is what a list of all values would tell, as coarsely as it is old."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.finding import Finding, Verdict
from hangtop.session.history import VERDICTS, History, Series, Span


@given(steps=st.lists(st.tuples(st.integers(0, 9), st.integers(-1000, 1000)), min_size=1, max_size=60))
def test_a_cell_is_mean_and_most_of_what_came_in_it(steps: list[tuple[int, int]]) -> None:
    """Of seconds since the value before, and a value."""
    series, by_cell, at = Series(), defaultdict[int, list[float]](list), 1_000_000
    for after, value in steps:
        at += after
        series.add(at, float(value))
        by_cell[at // 10].append(float(value))
    for number, values in by_cell.items():
        (found,) = series.spans(number * 10, 10, 1)
        assert found == pytest.approx((sum(values) / len(values), max(values), len(values)))


def test_what_is_old_is_known_more_coarsely() -> None:
    series = Series()
    for second in range(10_000):
        series.add(5e8 + second, second)
    end = 5e8 + 10_000
    assert series.spans(end - 3, 1, 3) == [Span(x, x) for x in (9997.0, 9998.0, 9999.0)]
    assert series.spans(end - 1000, 1, 1) == [Span(9004.5, 9009.0, 10)]  # the second is forgotten, ten are not
    assert series.spans(end - 60, 60, 1) == [Span(9969.5, 9999.0, 60)]
    assert series.at(5e8) == pytest.approx(4.5)
    assert series.at(5e8 - 100_000) is None


def test_a_pause_of_looking_is_a_gap_and_a_late_look_is_none() -> None:
    series = Series()
    series.add(100.0, 5.0)
    series.add(103.0, 7.0)
    series.add(120.0, 7.0)
    seen = [None if span is None else span.mean for span in series.spans(100.0, 1, 21)]
    assert seen == [5.0, 5.0, 5.0, 7.0, *[None] * 16, 7.0]


def test_verdicts_are_kept_as_they_change() -> None:
    def told(second: int) -> Verdict:
        kind = "a" if second < 100 else "b"
        return Verdict("hung", f"{kind} since {second} s", (Finding(kind, "critical", 0.9, kind),))

    history = History()
    for second in range(300):
        history.judged(float(second), told(second))
    assert [at for at, _ in history.verdicts] == [0, 60, 100, 160, 220, 280]
    assert [history.verdict_at(at) for at in (-1.0, 99.5, 100.0)] == [None, told(60), told(100)]
    for second in range(300, 300 + 60 * 2 * VERDICTS, 60):
        history.judged(float(second), told(second))
    assert len(history.verdicts) == VERDICTS
