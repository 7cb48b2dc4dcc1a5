"""How rows are ordered: numbers before words, words as people count, unknown always last."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tui.ordering.filter import Value

R = TypeVar("R")


def ordered(rows: Iterable[R], value: Callable[[R], Value], *, reverse: bool = False) -> list[R]:
    """Sort by value; unknown values are last in both directions; equal ones keep their order."""
    numbers: list[tuple[float, R]] = []
    words: list[tuple[tuple[str | int, ...], R]] = []
    unknown: list[R] = []
    for row in rows:
        found = value(row)
        if found is None:
            unknown.append(row)
        elif isinstance(found, str):
            words.append((natural(found), row))
        else:
            numbers.append((found, row))
    numbers.sort(key=lambda pair: pair[0], reverse=reverse)
    words.sort(key=lambda pair: pair[0], reverse=reverse)
    return [row for _, row in numbers] + [row for _, row in words] + unknown


@lru_cache(65_536)
def natural(text: str) -> tuple[str | int, ...]:
    """Sort key of a name: ``node9`` before ``node10``. Words and numbers alternate, so keys always compare."""
    return tuple(int(part) if place % 2 else part.lower() for place, part in enumerate(re.split(r"(\d{1,18})", text)))
