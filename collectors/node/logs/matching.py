"""Which rules may read a line, by its words, and what they read in it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Collection, Dict, FrozenSet, Iterator, List, Optional

from collectors.node.logs.rule import Rule
from collectors.node.logs.rules import ERRORS, FALLBACK, RULES
from collectors.samples.logs import LogEvent

OPENS, NAMES, LAUNCHES, INITIALISES = (1 << len(RULES) + place for place in range(4))
"""Bits of words that no rule has: of a record of several lines, of Ray's workers, and of NCCL's COLL and INIT lines."""
_MARKS = {
    OPENS: "Traceback (|Failures:|Root Cause", NAMES: " world_rank=", LAUNCHES: " opCount", INITIALISES: " nranks ",
}  # fmt: skip
KERNEL = sum(1 << place for place, rule in enumerate(RULES) if rule.kind.startswith("kernel."))
"""Bits of the rules that read the kernel's log."""
DIGITS = b"0123456789\0"


def _words() -> Dict[bytes, int]:
    """All words, each with the bits of what it stands for: of a rule its place in the table."""
    found: Dict[bytes, int] = {}
    for bit, words in {**{1 << place: rule.words for place, rule in enumerate(RULES)}, **_MARKS}.items():
        for word in words.encode("utf-8").split(b"|"):
            found[word] = found.get(word, 0) | bit
    return found


_WORDS = _words()


def masks(different: Collection[bytes]) -> Dict[bytes, int]:
    """The bits of the words of each of these lines that has any.

    Most logs say the same over and over with other numbers: without digits their lines are few different ones, and each
    is searched once. So no word has a digit.
    """
    bare = {line: line.translate(None, DIGITS) for line in different}
    found = _search(frozenset(bare.values()))
    return {line: found[key] for line, key in bare.items() if found[key]}


@lru_cache(4)
def _search(different: FrozenSet[bytes]) -> Dict[bytes, int]:
    """The bits of the words of each line; the next block often has the same lines."""
    found = dict.fromkeys(different, 0)
    lines = b"\n".join([*found, b""])
    for word, bits in _WORDS.items():
        at = lines.find(word)
        while at >= 0:
            end = lines.find(b"\n", at)
            found[lines[lines.rfind(b"\n", 0, at) + 1 : end]] |= bits
            at = lines.find(word, end)
    return found


def matches(text: str, mask: Optional[int] = None, *, errors: bool = True) -> List[LogEvent]:
    """What the rules read in a text that has the words of ``mask``: of each kind the first that one of them reads.

    Errors that no rule knows by name, only where ``errors`` are asked for.
    """
    if mask is None:
        mask = 0
        for bits in masks(text.encode("utf-8", "replace").split(b"\n")).values():
            mask |= bits
    found: Dict[str, LogEvent] = {}
    for rule in _rules_of(mask):
        if rule.kind not in found and (errors or rule.kind not in ERRORS) and (rule.kind != FALLBACK or not found):
            event = rule.apply(text)
            if event is not None:
                found[rule.kind] = event
    return list(found.values())


def of_kind(kind: str, text: str) -> Optional[LogEvent]:
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
