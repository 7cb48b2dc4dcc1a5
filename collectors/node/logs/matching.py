"""Which rules may read a line, by its words, and what they read in it."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Dict, List, Optional

from collectors.node.logs.rule import ParsedEvent, Rule
from collectors.node.logs.rules import FALLBACK, RULES

OPENS, NAMES = 1, 2
"""Bits of the words that open a record of several lines, and of those that name the workers of Ray."""
_READER = {OPENS: "Traceback (|Fatal Python error|Failures:|Root Cause| last):", NAMES: " world_rank="}
_BITS = {4 << place: rule for place, rule in enumerate(RULES)}
_DIGITS = b"0123456789\0"


def _words() -> Dict[bytes, int]:
    """All words, with the bits of what they stand for."""
    found: Dict[bytes, int] = {}
    for bit, words in {**_READER, **{bit: rule.words for bit, rule in _BITS.items()}}.items():
        for word in words.encode("utf-8").split(b"|"):
            found[word] = found.get(word, 0) | bit
    return found


_WORDS = _words()


def hits(text: bytes) -> Dict[int, int]:
    """Start of each line that has one of the words, and the bits of its words; ascending. Lines end with LF.

    Most logs say the same over and over with other numbers: without digits the lines of a block are few different ones,
    and only these are searched. So no word has a digit.
    """
    bare = text.translate(None, _DIGITS).split(b"\n")
    kinds = b"\n".join(set(bare))
    saying: Dict[bytes, int] = {}
    for word, mask in _WORDS.items():
        at = kinds.find(word)
        while at >= 0:
            start, end = kinds.rfind(b"\n", 0, at) + 1, kinds.find(b"\n", at)
            line = kinds[start:] if end < 0 else kinds[start:end]
            saying[line] = saying.get(line, 0) | mask
            at = -1 if end < 0 else kinds.find(word, end)
    if not saying:
        return {}
    starts = accumulate([0, *(len(line) + 1 for line in text.split(b"\n"))])
    return {start: saying[line] for start, line in zip(starts, bare) if line in saying}


def mask_of(text: str) -> int:
    """Bits of all words in one text."""
    raw, mask = text.encode("utf-8", "replace"), 0
    for word, bits in _WORDS.items():
        if word in raw:
            mask |= bits
    return mask


def matches(text: str, mask: int, *, errors: bool = True) -> List[ParsedEvent]:
    """What the rules read in a text that has the words of ``mask``: of each kind the first that one of them reads.

    What no rule knows by name, a line at the level for errors, counts where nothing else is found.
    """
    found: Dict[str, ParsedEvent] = {}
    for bit, rule in _BITS.items():
        if mask & bit and rule.kind not in found and (rule.kind != FALLBACK or (errors and not found)):
            event = rule.apply(text)
            if event is not None:
                found[rule.kind] = event
    return list(found.values())


def going_on(text: str, mask: int) -> Optional[Rule]:
    """The rule whose record a line begins and goes on in the next ones."""
    rules = (rule for bit, rule in _BITS.items() if mask & bit and rule.begins)
    return next((rule for rule in rules if re.search(rule.begins, text)), None)
