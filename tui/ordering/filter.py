"""The filter language of tables and logs: terms, separated by spaces, that must all hold.

    rank=3,7-9    gpu.util<10    node=gpu0*,cpu1    command~data    !state=S    reader

``=`` takes lists, ranges of numbers and ``*``; ``~`` searches a column for letters, a bare word searches the whole row.
``!term`` shows exactly the rows that ``term`` does not; an unknown value matches no other term.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

Value = str | float | int | None

R = TypeVar("R")

Test = Callable[[Value], bool]

_TERM = re.compile(r"([A-Za-z][A-Za-z0-9_./%]*)(<=|>=|=|~|<|>)(.*)", re.DOTALL)
_QUANTITY = re.compile(r"(-?\d+(?:\.\d+)?)([A-Za-z%]*)$")
_RANGE = re.compile(r"(\d+)-(\d+)$")
_UNITS = {
    "": 1.0, "%": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40,
    "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0,
}  # fmt: skip
_COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class FilterError(ValueError):
    """An invalid filter; the text says what to change."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition on a field; on the whole row if the field is empty."""

    field: str
    test: Test
    negated: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that must all hold; without conditions, every row passes."""

    text: str
    terms: tuple[Term, ...]

    def bind(self, fields: Mapping[str, Callable[[R], Value]], whole: Callable[[R], str]) -> Callable[[R], bool]:
        """Make the test for one kind of row.

        ``fields`` get the value of each field, ``whole`` gets the row's text. Raises :class:`FilterError` for an
        unknown field.
        """
        for term in self.terms:
            if term.field and term.field not in fields:
                raise FilterError(f"no field “{term.field}” here; there are {', '.join(sorted(fields))}")
        tests = [(fields[term.field] if term.field else whole, term.test, term.negated) for term in self.terms]
        return lambda row: all(test(get(row)) is not negated for get, test, negated in tests)


def parse(text: str) -> Filter:
    """Parse a filter. Raises :class:`FilterError`."""
    return Filter(text.strip(), tuple(map(_term, text.split())))


def _term(word: str) -> Term:
    negated, body = word.startswith("!"), word.removeprefix("!")
    if not body:
        raise FilterError("“!” needs a term after it, as in !rank=3")
    match = _TERM.match(body)
    if match is None:
        return Term("", _contains(body), negated)
    field, sign, wanted = match[1].lower(), match[2], match[3]
    if not wanted:
        raise FilterError(f"“{body}” lacks a value, as in {field}{sign}3")
    if sign == "~":
        return Term(field, _contains(wanted), negated)
    return Term(field, _is_one_of(wanted) if sign == "=" else _compares(field, sign, wanted), negated)


def _contains(word: str) -> Test:
    low = word.lower()
    return lambda value: value is not None and low in str(value).lower()


def _compares(field: str, sign: str, wanted: str) -> Test:
    limit, holds = quantity(wanted), _COMPARISONS[sign]
    if limit is None:
        raise FilterError(f"“{field}{sign}{wanted}” needs a number, as in {field}{sign}10, 2G, 80% or 90s")
    return lambda value: isinstance(value, (int, float)) and holds(value, limit)


def quantity(text: str) -> float | None:
    """Parse a number with a unit: ``10``, ``2.5G`` (binary), ``80%``, ``5m`` (minutes); None for other text."""
    match = _QUANTITY.match(text)
    factor = None if match is None else _UNITS.get(match[2])
    return None if match is None or factor is None else float(match[1]) * factor


def _is_one_of(wanted: str) -> Test:
    """The test for a comma-separated list of numbers, ranges, and words with ``*``."""
    choices = [_choice(item.lower()) for item in wanted.split(",") if item]
    if not choices:
        raise FilterError(f"“{wanted}” lists nothing")
    return lambda value: any(choice(value) for choice in choices)


def _choice(item: str) -> Test:
    span, number = _RANGE.match(item), quantity(item)
    first, last = (float(span[1]), float(span[2])) if span is not None else (number, number)

    def test(value: Value) -> bool:
        if isinstance(value, str):
            return fnmatchcase(value.lower(), item.replace("[", "[[]"))
        return value is not None and first is not None and last is not None and first <= value <= last

    return test
