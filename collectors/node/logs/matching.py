"""The rules, ready to be asked: numbered, found by their literals, matched against a line."""

from __future__ import annotations

import re
from collections import Counter
from itertools import accumulate
from typing import Dict, List, NamedTuple, Optional, Pattern, Sequence, Tuple

from collectors.node.logs import blocks
from collectors.node.logs.literals import required
from collectors.node.logs.rule import ParsedEvent, Rule, apply
from collectors.node.logs.rules import SUBJECTS

GATE = 4
"""Bytes of a gate: shorter ones occur in any text."""
_COMMON = frozenset(
    (b"ing ", b"tion", b" the", b"the ", b"ed t", b"ion ", b" for", b"for ", b"s in", b" to ", b"with", b"rank",
     b"from", b"ted ", b"ent ")
)  # fmt: skip
"""What any log has: no gates."""


_DIGITS = b"0123456789\0"
_ALIKE, _FEW = 4, 64
"""Lines for each different one from which on the different ones are searched first; lines that are then looked at one
by one, at most."""


class Scanner:
    """Searches for many literals, each with bits of what it stands for.

    There are hundreds of them: short *gates* are looked for first, chosen such that many literals contain one. And most
    logs say the same over and over with other numbers: without their digits the lines of a block are few different
    ones, and what none of those has, no line has.
    """

    def __init__(self, literals: Sequence[Tuple[bytes, int]]) -> None:
        self._bits: Dict[bytes, int] = {}
        for literal, mask in literals:
            self._bits[literal] = self._bits.get(literal, 0) | mask
        shared = Counter(part for literal in self._bits for part in _parts(literal))
        self._gated: Dict[bytes, List[bytes]] = {}
        for literal in sorted(self._bits):
            gate = max(_parts(literal), key=lambda part: (shared[part], part), default=literal)
            self._gated.setdefault(gate, []).append(literal)

        self._bare: Optional[Scanner] = None

    def hits(self, text: bytes) -> Dict[int, int]:
        """Start of each line that has a literal, and the bits of all literals in it; ascending. Lines end with LF."""
        bare = text.translate(None, _DIGITS).split(b"\n")
        kinds = set(bare)
        if len(kinds) * _ALIKE > len(bare):
            return self.every(text)
        if self._bare is None:
            self._bare = Scanner([(literal.translate(None, _DIGITS), 1) for literal in self._bits])
        joined = b"\n".join(kinds) + b"\n"
        saying = {joined[start : joined.find(b"\n", start)] for start in self._bare.every(joined)}
        places = [index for index, line in enumerate(bare) if line in saying] if saying else []
        if len(places) > _FEW:
            return self.every(text)
        if not places:
            return {}
        lines = text.split(b"\n")
        starts = [0, *accumulate(len(line) + 1 for line in lines)]
        found = {starts[index]: self.mask(lines[index]) for index in places}
        return {start: mask for start, mask in found.items() if mask}

    def every(self, text: bytes) -> Dict[int, int]:
        """The same, whatever the lines."""
        found: Dict[int, int] = {}
        for gate, literals in self._gated.items():
            if gate not in text:
                continue
            for literal in literals:
                mask, at = self._bits[literal], text.find(literal)
                while at >= 0:
                    start = text.rfind(b"\n", 0, at) + 1
                    found[start] = found.get(start, 0) | mask
                    end = text.find(b"\n", at)
                    if end < 0:
                        break
                    at = text.find(literal, end)
        return dict(sorted(found.items()))

    def mask(self, text: bytes) -> int:
        """Bits of all literals in one line."""
        mask = 0
        for gate, literals in self._gated.items():
            if gate in text:
                for literal in literals:
                    if literal in text:
                        mask |= self._bits[literal]
        return mask


def _parts(literal: bytes) -> List[bytes]:
    parts = {literal[at : at + GATE] for at in range(len(literal) - GATE + 1)}
    return list(parts - _COMMON)


class RuleMatcher(NamedTuple):
    """A rule, ready to be asked."""

    bit: int
    rule: Rule
    pattern: "Pattern[str]"
    begins: "Optional[Pattern[str]]"


OPENS, ALONE = 1, 2
"""Bits of the literals that open a block, and of those that the reader itself looks at."""


def _prepared() -> Tuple[Dict[str, Tuple[RuleMatcher, ...]], List[Tuple[bytes, int]]]:
    """The rules with a bit for each, and the literals by which their lines are found."""
    rows: Dict[str, Tuple[RuleMatcher, ...]] = {}
    literals = [(literal, OPENS) for literal in blocks.OPENERS] + [(literal, ALONE) for literal in blocks.NAMING]
    bit = 1 << 2
    for subject, rules in SUBJECTS.items():
        made = []
        for rule in rules:
            begins = re.compile(rule.begins) if rule.begins else None
            made.append(RuleMatcher(bit, rule, re.compile(rule.pattern), begins))
            for pattern in filter(None, (rule.pattern, rule.begins)):
                literals.extend((literal.encode("utf-8"), bit) for literal in required(pattern))
            bit <<= 1
        rows[subject] = tuple(made)
    return rows, literals


ROWS, _LITERALS = _prepared()
SCANNER = Scanner(_LITERALS)
"""Finds the lines that the reader wants to see."""
MASKS = {subject: sum(row.bit for row in rows) for subject, rows in ROWS.items()}


def matches(rows: Tuple[RuleMatcher, ...], text: str, mask: Optional[int] = None) -> List[ParsedEvent]:
    """What the rules of one subject find in a text: the first of them, and those marked ``also``."""
    mask = SCANNER.mask(text.encode("utf-8", "replace")) if mask is None else mask
    found: List[ParsedEvent] = []
    done = False
    for bit, rule, pattern, _ in rows:
        if mask & bit and (rule.also or not done):
            match = pattern.search(text)
            event = None if match is None else apply(rule, match)
            if event is not None:
                found.append(event)
                done = done or not rule.also
    return found
