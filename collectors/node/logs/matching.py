"""Selects the rules for a line by the words that it contains, and applies them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Collection, Dict, FrozenSet, Iterator, List, Optional

from collectors.node.logs import prefixes
from collectors.node.logs.rule import Rule
from collectors.node.logs.rules import ERRORS, FALLBACK, RULES
from collectors.samples.logs import LogEvent

OPENS, NAMES, LAUNCHES, INITIALISES = (1 << len(RULES) + place for place in range(4))
"""Bits of words outside rules: openers of multi-line records, Ray's workers, and NCCL's COLL and INIT lines."""
_MARKS = {
    OPENS: "Traceback (|Failures:|Root Cause", NAMES: " world_rank=", LAUNCHES: " opCount", INITIALISES: " nranks ",
}  # fmt: skip
KERNEL = sum(1 << place for place, rule in enumerate(RULES) if rule.kind.startswith("kernel."))
"""Bits of the rules for the kernel log."""
DIGITS = b"0123456789\0"


def _words() -> Dict[bytes, int]:
    """All words with their bits; a rule's bit is its position in the table."""
    found: Dict[bytes, int] = {}
    for bit, words in {**{1 << place: rule.words for place, rule in enumerate(RULES)}, **_MARKS}.items():
        for word in words.encode("utf-8").split(b"|"):
            found[word] = found.get(word, 0) | bit
    return found


_WORDS = _words()


def masks(different: Collection[bytes]) -> Dict[bytes, int]:
    """Bits of the words in each line; lines without any word are left out.

    Most logs repeat the same lines with different numbers. Without digits few distinct lines remain, and each is
    searched once; so words must not contain digits.
    """
    bare = {line: line.translate(None, DIGITS) for line in different}
    found = _search(frozenset(bare.values()))
    return {line: found[key] for line, key in bare.items() if found[key]}


@lru_cache(4)
def _search(different: FrozenSet[bytes]) -> Dict[bytes, int]:
    """Bits of the words in each line; cached, because the next block often has the same lines."""
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
    """Events that the rules find in a text with the words of ``mask`` (None: search it); per kind the first rule wins.

    Kinds in :data:`ERRORS` are included only if ``errors``.
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


def quoted(message: str) -> List[LogEvent]:
    """Events that the rules find in the message of an exception."""
    found = matches(prefixes.seen(message), errors=False)
    return [event._replace(data={**event.data, "raised": True}, text=message) for event in found]


def of_kind(kind: str, text: str) -> Optional[LogEvent]:
    """Event of the first rule of ``kind`` that matches a text."""
    events = (rule.apply(text) for rule in RULES if rule.kind == kind)
    return next((event for event in events if event is not None), None)


def going_on(text: str, mask: int) -> Optional[Rule]:
    """The rule whose multi-line record begins with this line."""
    return next((rule for rule in _rules_of(mask) if rule.begins and re.search(rule.begins, text)), None)


def _rules_of(mask: int) -> Iterator[Rule]:
    """The rules whose bits are set in ``mask``, in table order."""
    rest = mask & (OPENS - 1)
    while rest:
        yield RULES[(rest & -rest).bit_length() - 1]
        rest &= rest - 1
