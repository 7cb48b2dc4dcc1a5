"""The filter language of every table and of the logs.

    rank=3,7-9    gpu.util<10    node=gpu[001-004]    node~gpu0    !state=S    reader "data loader"    wchan=?

Terms stand side by side and must all hold. ``=`` takes lists, ranges, node sets and ``*``; ``~`` takes a regular
expression; a bare word is looked for in the whole row. ``!term`` (like ``!=`` and ``!~``) shows exactly what ``term``
does not, unknown values included; no other comparison holds for what is unknown.
"""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

Value = str | float | int | None

R = TypeVar("R")

Test = Callable[[Value], bool]

_WORD = re.compile(r'((?:"[^"]*"|[^\s"])+)')
_TERM = re.compile(r"([A-Za-z][A-Za-z0-9_./%]*)(!=|!~|<=|>=|=|~|<|>)(.*)", re.DOTALL)
_QUANTITY = re.compile(r"(-?(?:\d+\.?\d*|\.\d+))([A-Za-z%µ/]*)$")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+$")
_RANGE = re.compile(r"(\d+)-(\d+)$")

_UNITS = {
    "": 1.0, "%": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50,
    "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30, "TB": 2.0**40, "W": 1.0, "MHZ": 1.0, "C": 1.0, "MS": 0.001,
}  # fmt: skip
_SECONDS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
MOST_NODES = 65_536


class FilterError(ValueError):
    """The filter cannot be understood; the text says what to change."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition. Without a field it is looked for in the whole row."""

    field: str
    test: Test
    negated: bool
    found: re.Pattern[str] | None = None
    """What to point out in the text that matched; None when there is nothing to see."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that must all hold. Without any it lets everything through."""

    text: str
    terms: tuple[Term, ...]

    def bind(self, fields: Mapping[str, Callable[[R], Value]], whole: Callable[[R], str]) -> Callable[[R], bool]:
        """Make the test of one kind of row.

        ``fields`` gives each field's value, ``whole`` the row's text. Raises :class:`FilterError` for a field that
        such rows do not have.
        """
        for term in self.terms:
            if term.field and term.field not in fields:
                raise FilterError(f"no field “{term.field}” here; there are {', '.join(sorted(fields))}")
        tests = [(fields[term.field] if term.field else whole, term.test, term.negated) for term in self.terms]
        return lambda row: all(test(get(row)) is not negated for get, test, negated in tests)


def parse(text: str) -> Filter:
    """Read a filter: words at spaces outside double quotes. Raises :class:`FilterError`."""
    if text.count('"') % 2:
        raise FilterError('a quotation mark " is not closed')
    return Filter(text.strip(), tuple(map(_term, _WORD.findall(text))))


def _term(written: str) -> Term:
    word = written.replace('"', "")
    if written.startswith('"'):
        return Term("", _contains(word), negated=False, found=re.compile(re.escape(word), re.IGNORECASE))
    negated, body = word.startswith("!"), word.removeprefix("!")
    if not body:
        raise FilterError("“!” needs a term after it, as in !rank=3")
    match = _TERM.match(body)
    if match is None:
        return Term("", _contains(body), negated, None if negated else re.compile(re.escape(body), re.IGNORECASE))
    field, sign, wanted = match[1].lower(), match[2], match[3]
    if not wanted:
        raise FilterError(f"“{body}” lacks a value, as in {field}{sign}3 (use {field}=? for unknown)")
    if sign.startswith("!"):
        negated, sign = not negated, sign[1:]
    if sign == "~":
        pattern = _pattern(wanted)
        found = None if negated else pattern
        return Term(field, lambda value: value is not None and pattern.search(str(value)) is not None, negated, found)
    return Term(field, _is_one_of(wanted) if sign == "=" else _compares(field, sign, wanted), negated)


def _contains(word: str) -> Test:
    low = word.lower()
    return lambda value: value is not None and low in str(value).lower()


def _pattern(text: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():  # "[[" may mean something else to a later Python: no matter for who types it
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(text, re.IGNORECASE)
    except (re.error, OverflowError) as error:
        raise FilterError(f"“{text}” is no regular expression: {error}") from None


def _compares(field: str, sign: str, wanted: str) -> Test:
    limit, holds = quantity(wanted), _COMPARISONS[sign]
    if limit is None:
        raise FilterError(f"“{field}{sign}{wanted}” needs a number, as in {field}{sign}10, 2G, 80% or 1m30s")
    return lambda value: isinstance(value, (int, float)) and holds(value, limit)


def quantity(text: str) -> float | None:
    """Read a number with a unit: ``10``, ``2.5G`` (binary), ``80%``, ``1m30s``; None when it is none.

    ``m`` is minutes and ``M`` is mebi, as tables show them.
    """
    if _DURATION.match(text):
        return sum(float(part[:-1]) * _SECONDS[part[-1]] for part in re.findall(r"[\d.]+[dhms]", text))
    match = _QUANTITY.match(text)
    factor = None if match is None else _UNITS.get(match[2].upper().removesuffix("/S").removesuffix("IB"))
    return None if match is None or factor is None else float(match[1]) * factor


def _is_one_of(wanted: str) -> Test:
    """Any of a list: numbers, ranges, words, ``*`` patterns, node sets, ``?`` for unknown."""
    choices = [_choice(item) for item in re.split(r",(?![^\[]*\])", wanted) if item]
    if not choices:
        raise FilterError(f"“{wanted}” lists nothing")
    return lambda value: any(choice(value) for choice in choices)


def _choice(item: str) -> Test:
    if item in {"?", "–"}:
        return lambda value: value is None
    low = item.lower()
    if (span := _RANGE.match(item)) is not None:
        first, last = int(span[1]), int(span[2])
        if first > last:
            raise FilterError(f"the range “{item}” runs backwards")
        return lambda value: value.lower() == low if isinstance(value, str) else (
            value is not None and first <= value <= last
        )  # fmt: skip
    if "[" in item and "*" not in item:
        names = _node_set(item)
        return lambda value: isinstance(value, str) and value in names
    number, glob = quantity(item), "*" in low

    def test(value: Value) -> bool:
        if isinstance(value, str):
            return fnmatchcase(value.lower(), low) if glob else value.lower() == low
        return value is not None and number is not None and value == number

    return test


def _node_set(item: str) -> frozenset[str]:
    """Names of a ClusterShell node set. Raises :class:`FilterError` for a malformed one."""
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    size = 1
    for first, last in re.findall(r"(\d+)-(\d+)", item):
        size *= max(1, int(last) - int(first) + 1)
    if size > MOST_NODES:  # ClusterShell writes a whole range out before it can be asked how large it is
        raise FilterError(f"the node set “{item}” is too large")
    try:
        return frozenset(str(name) for name in NodeSet(item, resolver=None))
    except NodeSetException as error:
        raise FilterError(f"“{item}” is no node set: {error}") from None
