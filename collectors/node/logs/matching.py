"""Which rules may read a line, by its words, and what they read in it."""

from __future__ import annotations

import re
from typing import Collection, Dict, Iterator, List, Optional

from collectors.node.logs.rule import ParsedEvent, Rule
from collectors.node.logs.rules import ERRORS, FALLBACK, RULES

OPENS, NAMES, LAUNCHES, INITIALISES = (1 << len(RULES) + place for place in range(4))
"""Bits of words that no rule has: of a record of several lines, of Ray's workers, and of NCCL's COLL and INIT lines."""
_MARKS = {
    OPENS: "Traceback (|Failures:|Root Cause", NAMES: " world_rank=", LAUNCHES: " opCount", INITIALISES: " nranks ",
}  # fmt: skip
KERNEL = sum(1 << place for place, rule in enumerate(RULES) if rule.kind.startswith("kernel."))
"""Bits of the rules that read the kernel's log."""
DIGITS = b"0123456789\0"
_KNOWN = 256 << 10
"""Bytes of different lines that are remembered."""


def _words() -> Dict[bytes, int]:
    """All words, each with the bits of what it stands for: of a rule its place in the table."""
    found: Dict[bytes, int] = {}
    for bit, words in {**{1 << place: rule.words for place, rule in enumerate(RULES)}, **_MARKS}.items():
        for word in words.encode("utf-8").split(b"|"):
            found[word] = found.get(word, 0) | bit
    return found


_WORDS = _words()


class Prefilter:
    """Finds the lines that have one of the words.

    Most logs say the same over and over with other numbers: without digits their lines are few different ones, and each
    is searched once. So no word has a digit.
    """

    def __init__(self) -> None:
        self._known: Dict[bytes, int] = {}
        """Bits of the words of each different line."""
        self._size = 0

    def masks(self, different: Collection[bytes]) -> Dict[bytes, int]:
        """The bits of the words of each of these lines that has any."""
        bare = {line: line.translate(None, DIGITS) for line in different}
        fresh = set(bare.values()).difference(self._known)
        if fresh and self._size > _KNOWN:
            self._known, self._size, fresh = {}, 0, set(bare.values())
        if fresh:
            self._known.update(dict.fromkeys(fresh, 0))
            self._search(b"\n".join(fresh))
        return {line: mask for line, key in bare.items() for mask in (self._known[key],) if mask}

    def _search(self, lines: bytes) -> None:
        self._size += len(lines)
        for word, mask in _WORDS.items():
            at = lines.find(word)
            while at >= 0:
                start, end = lines.rfind(b"\n", 0, at) + 1, lines.find(b"\n", at)
                line = lines[start:] if end < 0 else lines[start:end]
                self._known[line] |= mask
                at = -1 if end < 0 else lines.find(word, end)


def matches(text: str, mask: Optional[int] = None, *, errors: bool = True) -> List[ParsedEvent]:
    """What the rules read in a text that has the words of ``mask``: of each kind the first that one of them reads.

    Errors that no rule knows by name, only where ``errors`` are asked for.
    """
    if mask is None:
        raw = text.encode("utf-8", "replace")
        mask = 0
        for word, bits in _WORDS.items():
            mask |= bits if word in raw else 0
    found: Dict[str, ParsedEvent] = {}
    for rule in _rules_of(mask):
        if rule.kind not in found and (errors or rule.kind not in ERRORS) and (rule.kind != FALLBACK or not found):
            event = rule.apply(text)
            if event is not None:
                found[rule.kind] = event
    return list(found.values())


def of_kind(kind: str, text: str) -> Optional[ParsedEvent]:
    """What the first rule of one kind that matches reads in a text."""
    events = (rule.apply(text) for rule in RULES if rule.kind == kind)
    return next((event for event in events if event is not None), None)


def going_on(text: str, mask: int) -> Optional[Rule]:
    """The rule whose record a line begins and goes on in the next ones."""
    return next((rule for rule in _rules_of(mask) if rule.begins and re.search(rule.begins, text)), None)


def _rules_of(mask: int) -> Iterator[Rule]:
    """The rules whose words a line has, in their order."""
    rest = mask & (OPENS - 1)
    while rest:
        yield RULES[(rest & -rest).bit_length() - 1]
        rest &= rest - 1
