"""Lines that would make a regular expression backtrack.

A pattern gets, for each part of it that may repeat, what stands before that part, then something that the part takes
over and over, then something that nothing takes. Whoever writes logs knows the patterns, so the test must too.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from collectors.fleet import bounds
from collectors.node.logs import prefixes as line
from tests.support.patterns import Found

PUMPS = (
    "1", "0", " ", ".", ",", "a", "A", "f", "_", "-", "'", '"', "\t", "/", ":", "[", "(", "a.", "a:", "a, ", "1, ",
    "1 ", "a ", "1.", "1:", "a=", "a/", "[1]", "(a", "a-1", " | ", "=", "<", "é",
)  # fmt: skip
"""What is repeated whatever the pattern: what its parts are likely to take for more than one thing."""
ENDS = ("", "\x01", "\n\x01")
FEW, FEW_TIMES, LEAP, GROWTH, MORE, FEW_S = 12, 4, 2.25, 1.25, 54, 0.02
"""Characters, or repetitions, to begin with, and how these grow up to so many: what doubles with each character must
not be asked for hundreds, nor for twice as many at once where two are repeated."""
QUIET_S = 2e-5
"""CPU seconds for a few repetitions up to which they may grow in leaps: what doubles with each needs more, or was told
by the leap after it, in less than a second."""
SCREEN_PART, DOUBT = 32, 0.6
"""The part of the length that is tried first: what takes its cube must not be asked for much. What grows with the
square of a length and stays below this share of what is left of :data:`WHOLE_S` stays below it for the whole, too; of
any other line twice as much is tried."""
WHOLE, WHOLE_S = line.LONGEST, 0.05
"""The longest line that a pattern may come to see, and the CPU seconds that it may need for it."""
SHORTER = (
    (re.compile(r"collectors\.node\.logs\.(?!lines\.(?:line|times)\b|sift\b|parser\b|numbers\b)"), line.SEEN),
    (re.compile(r"hangtop\.diagnosis\.|tui\."), bounds.TEXT),
)
"""Where less than that is seen."""
PACE, PACE_LINE, PACE_S = re.compile("[ab]*c"), "ab" * 800, 0.003
"""A pattern and a line that take so many CPU seconds on the machine by which the limits were set: one that is slower,
or busy, has as much more time."""
MANY = 64
"""Repetitions from which on a part of a pattern counts as one that may be pumped."""


class Slow(NamedTuple):
    """A line that takes a pattern too long."""

    name: str
    seconds: float
    line: str
    """The beginning of the line, the end of the pump."""


def lines(pattern: re.Pattern[Any]) -> list[tuple[str, str, str]]:
    """Beginnings, pumps and ends of lines that may be bad for a pattern."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(source, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags)
    found: dict[tuple[str, str, str], None] = {}
    for end in ENDS[:2]:
        for pump in PUMPS:
            found["", pump, end] = None
    for before, body, single in _repeats(tree, ""):
        fits = [pump for pump in PUMPS if single is None or all(_takes(single, char) for char in pump)]
        for end in ENDS if len(body) < 200 else ENDS[:1]:
            for pump in dict.fromkeys([body, *fits]):
                if pump:
                    found[before, pump, end] = None
            if before:
                found["", before + body, end] = None
                found["", before, end] = None
                for pump in (" ", ".", "1", "a"):
                    found["", before + pump, end] = None
    whole = _sample(tree)
    if len(whole) > 1:
        found["", whole[:-1], ""] = None
        found["", whole, ""] = None
    return list(found)


def _takes(single: Any, char: str) -> bool:
    """Whether a part of one character takes this one."""
    op, argument = single
    code = ord(char)
    if op is ops.ANY:
        return char != "\n"
    if op is ops.LITERAL:
        return bool(code == argument)
    if op is ops.NOT_LITERAL:
        return bool(code != argument)
    if op is not ops.IN:
        return False
    negated = argument[0][0] is ops.NEGATE
    return negated != any(_in(item, char) for item in argument)


def _in(item: Any, char: str) -> bool:
    op, argument = item
    if op is ops.LITERAL:
        return bool(ord(char) == argument)
    if op is ops.RANGE:
        return bool(argument[0] <= ord(char) <= argument[1])
    if op is ops.CATEGORY:
        name = str(argument).lower()
        good = (
            char.isdigit() if "digit" in name else char.isspace() if "space" in name else char.isalnum() or char == "_"
        )
        return good != ("not" in name)
    return False


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, str, Any]]:
    """For each part that may repeat: a text that leads to it, one that it takes, the part if of one character."""
    for op, argument in tree:
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            _, most, body = argument
            if most >= MANY:
                single = (
                    body[0]
                    if len(body) == 1 and body[0][0] in (ops.IN, ops.ANY, ops.LITERAL, ops.NOT_LITERAL)
                    else None
                )
                yield before, _sample(body), single
            yield from _repeats(body, before)
        elif op is ops.SUBPATTERN:
            yield from _repeats(argument[-1], before)
        elif op is ops.ATOMIC_GROUP:
            yield from _repeats(argument, before)
        elif op is ops.BRANCH:
            for branch in argument[1]:
                yield from _repeats(branch, before)
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            yield from _repeats(argument[1], before)
        before += _sample([(op, argument)])


def _sample(tree: Any) -> str:
    """A short text that a pattern takes, as far as can be told without looking around."""
    said = ""
    for op, argument in tree:
        if op is ops.LITERAL:
            said += chr(argument)
        elif op in (ops.NOT_LITERAL, ops.ANY, ops.IN):
            said += next((char for char in 'a1 .:,-_/"]x\n' if _takes((op, argument), char)), _first(argument))
        elif op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            said += _sample(argument[2]) * min(argument[0], 64)
        elif op is ops.SUBPATTERN:
            said += _sample(argument[-1])
        elif op is ops.ATOMIC_GROUP:
            said += _sample(argument)
        elif op is ops.BRANCH:
            said += _sample(argument[1][0])
    return said


def _first(argument: Any) -> str:
    for op, value in argument if isinstance(argument, list) else ():
        if op is ops.LITERAL:
            return chr(value)
        if op is ops.RANGE:
            return chr(value[0])
    return "a"


def seconds(found: Found, said: str, clock: Callable[[], float] = time.thread_time) -> float:
    """CPU seconds that a pattern takes for one line, in the way in which it is used."""
    text: Any = said.encode("utf-8") if isinstance(found.pattern.pattern, bytes) else said
    began = clock()
    if found.anchored:
        found.pattern.match(text)
        found.pattern.fullmatch(text)
    else:
        deque(islice(found.pattern.finditer(text), WHOLE + 1), 0)
    return clock() - began


def glance(found: Found, said: str) -> float:
    """The same by the wall's clock: it costs far less to read, and never shows less than was taken."""
    return seconds(found, said, time.perf_counter)


def least(found: Found, said: str, looks: int) -> float:
    """The least CPU seconds of several looks."""
    return min(seconds(found, said) for _ in range(looks))


def pace() -> float:
    """How much slower this machine is at this moment than the one by which the limits were set; 1 at the least."""
    return max(1.0, *(seconds(Found("pace", PACE, False), PACE_LINE) / PACE_S for _ in range(3)))


def line_of(parts: Sequence[str], length: int) -> str:
    """A line of about a length: what begins it, what is repeated, what ends it."""
    before, pump, end = parts
    return before + pump * max(1, (length - len(before) - len(end)) // len(pump)) + end


def longest(found: Found) -> int:
    """Characters of the longest text that a pattern may come to see."""
    return next((length for where, length in SHORTER if where.match(found.name)), WHOLE)


def slow(found: Found) -> Slow | None:
    """A line that takes a pattern too long; None when none does."""
    whole = longest(found)
    for parts in lines(found.pattern):
        repeats, took = _repeated(found, parts)
        if took >= FEW_S:
            return Slow(found.name, took, f"{parts!r:.300} {repeats} times")
        length = whole // SCREEN_PART
        took = glance(found, line_of(parts, length))
        if took >= DOUBT * WHOLE_S * (length / whole) ** 2:  # if the machine was only busy, it took less than it lasted
            took = seconds(found, line_of(parts, length))
        while length < whole and DOUBT * WHOLE_S * (length / whole) ** 2 <= took < WHOLE_S:
            length *= 2
            took = seconds(found, line_of(parts, length))
        if took >= WHOLE_S and (
            took >= 4 * WHOLE_S * pace() or least(found, line_of(parts, length), 2) >= WHOLE_S * pace()
        ):
            return Slow(found.name, took, f"{parts!r:.300} x {length}")
    return None


def _repeated(found: Found, parts: Sequence[str]) -> tuple[int, float]:
    """How often the pump was repeated at last, and the CPU seconds that it took, by the pace of this moment.

    Few repetitions, then more: those that took too long only because the machine is slow just now are no reason to try
    the long line, which may take as long as the world.
    """
    repeats = max(FEW_TIMES, FEW // len(parts[1]))
    while True:
        said = parts[0] + parts[1] * repeats + parts[2]
        took = glance(found, said)
        if took >= FEW_S:  # if the machine was only busy, more is asked: never the long line while it may double
            took = least(found, said, 2) / pace()
        if repeats >= MORE or took >= FEW_S:
            return repeats, took
        repeats = min(MORE, int(repeats * (LEAP if took < QUIET_S else GROWTH)))
