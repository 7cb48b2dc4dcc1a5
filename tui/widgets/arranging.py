"""Filtering and sorting thousands of rows without holding up who types: a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from tui.ordering.filter import Value
from tui.ordering.order import ordered

R = TypeVar("R")

AT_ONCE = 1024
"""Rows that are filtered and sorted in one go: some 5 ms, or 50 where a filter looks for words in all columns."""
PART = 128
"""Rows of one part."""
BUSY_SHARE = 0.05
"""Share of the loop's time that sorting a table anew may take; beyond it the order is renewed less often."""


class Ordering(NamedTuple, Generic[R]):
    """What rows are sorted by."""

    value: Callable[[R], Value]
    reverse: bool


Test = Callable[[R], bool]


def arranged(rows: Sequence[R], test: Test[R] | None, by: Ordering[R] | None) -> list[R]:
    """The rows that pass, in order."""
    kept = list(rows) if test is None else [row for row in rows if test(row)]
    return kept if by is None else ordered(kept, by.value, reverse=by.reverse)


def arranging(rows: Sequence[R], test: Test[R] | None, by: Ordering[R] | None) -> Iterator[list[R] | None]:
    """The same in parts: None after each but the last, the rows at the end.

    Values are read once, part by part; only putting them in order is done in one go.
    """
    kept: list[tuple[R, Value]] = []
    for start in range(0, len(rows), PART):
        part = rows[start : start + PART] if test is None else [row for row in rows[start : start + PART] if test(row)]
        kept += [(row, None if by is None else by.value(row)) for row in part]
        yield None
    if by is not None:
        kept = ordered(kept, lambda pair: pair[1], reverse=by.reverse)
    yield [row for row, _ in kept]
