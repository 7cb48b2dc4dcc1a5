"""The little language of every table's ``/`` filter; pure, and the same everywhere.

::

    rank=3            rank=3,7-9         node=gpu[001-004]      node=gpu0*
    gpu.util<10       rss>2G             age>=1m30s             mem>80%
    node~gpu0         wchan~^nfs         "data loader"          plainword
    state!=S          cmd!~torchrun      !rank=3                wchan=?   (unknown)

Terms stand side by side and must all hold. ``=`` takes lists, ranges, node sets and ``*``; ``~`` takes a regular
expression; a bare word is looked for in the whole row. ``!term`` (like ``!=`` and ``!~``) shows exactly what ``term``
does not, unknown values included; no other comparison holds for what is unknown.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

Value = str | float | int | None

R = TypeVar("R")

Test = Callable[[Value], bool]

_TERM = re.compile(r"([A-Za-z][A-Za-z0-9_./%]*)(!=|!~|<=|>=|=|~|<|>)(.*)", re.DOTALL)
_QUANTITY = re.compile(r"(-?(?:\d+\.?\d*|\.\d+))([A-Za-z%µ/]*)$")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+$")
_RANGE = re.compile(r"(\d+)-(\d+)$")

_UNITS = {
    "": 1.0, "%": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50,
    "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30, "TB": 2.0**40, "W": 1.0, "MHZ": 1.0, "C": 1.0, "MS": 0.001,
}  # fmt: skip
MOST_NODES = 65_536

_SECONDS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


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
        tests: list[Callable[[R], bool]] = []
        for term in self.terms:
            if not term.field:
                tests.append(_bound(whole, term.test, negated=term.negated))
            elif (get := fields.get(term.field)) is not None:
                tests.append(_bound(get, term.test, negated=term.negated))
            else:
                raise FilterError(f"no field “{term.field}” here; there are {', '.join(sorted(fields))}")
        if not tests:
            return lambda _row: True
        if len(tests) == 1:
            return tests[0]
        return lambda row: all(test(row) for test in tests)


def _bound(get: Callable[[R], Value], test: Test, *, negated: bool) -> Callable[[R], bool]:
    if negated:
        return lambda row: not test(get(row))
    return lambda row: test(get(row))


def parse(text: str) -> Filter:
    """Read a filter. Raises :class:`FilterError`."""
    return Filter(text.strip(), tuple(_term(word, quoted=quoted) for word, quoted in _words(text)))


def _words(text: str) -> list[tuple[str, bool]]:
    """Split at spaces outside double quotes; says of each word whether it was quoted from its first character on."""
    if text.count('"') % 2:
        raise FilterError('a quotation mark " is not closed')
    words: list[tuple[str, bool]] = []
    current, started, quoted = "", False, False
    for piece in re.finditer(r'"([^"]*)"|(\s+)|([^\s"]+)', text):
        if piece[2] is not None:
            if started:
                words.append((current, quoted))
            current, started, quoted = "", False, False
            continue
        if not started:
            quoted = piece[1] is not None
        current, started = current + (piece[1] if piece[1] is not None else piece[3]), True
    if started:
        words.append((current, quoted))
    return words


def _term(word: str, *, quoted: bool) -> Term:
    if quoted:
        return Term("", _contains(word), negated=False, found=_literal(word))
    negated = word.startswith("!")
    body = word[1:] if negated else word
    if not body:
        raise FilterError("“!” needs a term after it, as in !rank=3")
    match = _TERM.match(body)
    if match is None:
        return Term("", _contains(body), negated, None if negated else _literal(body))
    field, operator, wanted = match[1].lower(), match[2], match[3]
    if not wanted:
        raise FilterError(f"“{body}” lacks a value, as in {field}{operator}3 (use {field}=? for unknown)")
    if operator.startswith("!"):
        negated, operator = not negated, operator[1:]
    test = _test(field, operator, wanted)
    return Term(field, test, negated, re.compile(wanted, re.IGNORECASE) if operator == "~" and not negated else None)


def _test(field: str, operator: str, wanted: str) -> Test:
    if operator == "~":
        return _matches(wanted)
    if operator == "=":
        return _is_one_of(wanted)
    return _compares(field, operator, wanted)


def _literal(word: str) -> re.Pattern[str]:
    return re.compile(re.escape(word), re.IGNORECASE)


def _contains(word: str) -> Test:
    low = word.lower()
    return lambda value: value is not None and low in str(value).lower()


def _matches(pattern: str) -> Test:
    try:
        with warnings.catch_warnings():  # "[[" may mean something else to a later Python: no matter for who types it
            warnings.simplefilter("ignore", FutureWarning)
            search = re.compile(pattern, re.IGNORECASE).search
    except (re.error, OverflowError) as error:
        raise FilterError(f"“{pattern}” is no regular expression: {error}") from None
    return lambda value: value is not None and search(str(value)) is not None


def _compares(field: str, operator: str, wanted: str) -> Test:
    limit = quantity(wanted)
    if limit is None:
        raise FilterError(f"“{field}{operator}{wanted}” needs a number, as in {field}{operator}10, 2G, 80% or 1m30s")
    if operator == "<":
        return lambda value: isinstance(value, (int, float)) and value < limit
    if operator == "<=":
        return lambda value: isinstance(value, (int, float)) and value <= limit
    if operator == ">":
        return lambda value: isinstance(value, (int, float)) and value > limit
    return lambda value: isinstance(value, (int, float)) and value >= limit


def quantity(text: str) -> float | None:
    """Read a number with a unit: ``10``, ``2.5G`` (binary), ``80%``, ``1m30s``; None when it is none.

    ``m`` is minutes and ``M`` is mebi, as tables show them.
    """
    if _DURATION.match(text):
        return sum(float(part[:-1]) * _SECONDS[part[-1]] for part in re.findall(r"[\d.]+[dhms]", text))
    match = _QUANTITY.match(text)
    if match is None:
        return None
    unit = match[2].upper().removesuffix("/S").removesuffix("IB")
    factor = _UNITS.get(unit)
    return None if factor is None else float(match[1]) * factor


def _is_one_of(wanted: str) -> Test:
    """Any of a list: numbers, ranges, words, ``*`` patterns, node sets, ``?`` for unknown."""
    choices = [_choice(item) for item in _items(wanted)]
    return lambda value: any(choice(value) for choice in choices)


def _items(wanted: str) -> list[str]:
    """Split at commas outside brackets."""
    items = [item for item in re.split(r",(?![^\[]*\])", wanted) if item]
    if not items:
        raise FilterError(f"“{wanted}” lists nothing")
    return items


def _choice(item: str) -> Test:
    if item in {"?", "–"}:
        return lambda value: value is None
    if (span := _RANGE.match(item)) is not None:
        return _in_range(int(span[1]), int(span[2]), item)
    if "[" in item and (names := _node_set(item)) is not None:
        return lambda value: isinstance(value, str) and value in names
    number, low = quantity(item), item.lower()
    glob = low if "*" in low else ""

    def test(value: Value) -> bool:
        if isinstance(value, str):
            return fnmatchcase(value.lower(), glob) if glob else value.lower() == low
        return value is not None and number is not None and value == number

    return test


def _in_range(first: int, last: int, item: str) -> Test:
    if first > last:
        raise FilterError(f"the range “{item}” runs backwards")

    def test(value: Value) -> bool:
        if isinstance(value, str):
            return value.lower() == item.lower()
        return value is not None and first <= value <= last

    return test


def _node_set(item: str) -> frozenset[str] | None:
    """Names of a ClusterShell node set, or None when it is none. Raises :class:`FilterError` for a malformed one."""
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    if "*" in item:
        return None
    size = 1
    for span in re.findall(r"(\d+)-(\d+)", item):
        # ClusterShell writes a whole range out before it can be asked how large it is
        size *= max(1, int(span[1]) - int(span[0]) + 1)
    if size > MOST_NODES:
        raise FilterError(f"the node set “{item}” is too large")
    try:
        return frozenset(str(name) for name in NodeSet(item, resolver=None))
    except NodeSetException as error:
        raise FilterError(f"“{item}” is no node set: {error}") from None
