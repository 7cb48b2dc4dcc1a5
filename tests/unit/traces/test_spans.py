"""Unions of intervals, against the plain way of computing them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.probes.trace.remote import spans
from collectors.probes.trace.remote.spans import Spans, outside, united

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=40)


def made(intervals: list[tuple[int, int]], limit: int = spans.LIMIT) -> Spans:
    union = Spans(limit)
    for start, length in intervals:
        union.add(float(start), float(start + length))
    return union


def cells(intervals: list[tuple[int, int]]) -> set[int]:
    return {cell for start, length in intervals for cell in range(start, start + length)}


@settings(max_examples=60)
@given(INTERVALS, INTERVALS)
def test_unions_and_differences(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    assert made(one).total() == len(cells(one))
    assert united([made(one), made(other)]) == len(cells(one) | cells(other))
    assert outside(made(one), made(other)).total() == len(cells(one) - cells(other))
    assert sum(end - start for start, end in made(one).within(10, 30)) == len(cells(one) & set(range(10, 30)))


def test_intervals_that_come_in_batches_and_backwards(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(spans, "FRESH", 3)
    union = made([(start, 2) for start in range(300, 0, -3)])
    assert union.total() == 200
    assert list(union)[:2] == [(3, 5), (6, 8)]


def test_memory_is_bounded_and_lengths_stay(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(spans, "FRESH", 50)
    # gaps of 1 and, between every ten, long ones of 20: only short ones are closed
    union = made([(start * 2 + (start // 10) * 20, 1) for start in range(2_000)], limit=1_500)
    assert len(union) <= 1_500
    assert union.total() == 2_000
    assert 0 < union.moved <= 1_000
    assert all(end - start in {1, 2} for start, end in union)


def test_what_comes_in_no_order_waits_until_merging_pays(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(spans, "FRESH", 4)
    monkeypatch.setattr(spans, "IN_ONE_GO", 50)
    places = [(place * 7919) % 1009 for place in range(1009)]
    union = made([(place * 2, 1) for place in places])
    assert (len(union), union.total()) == (1009, 1009)
