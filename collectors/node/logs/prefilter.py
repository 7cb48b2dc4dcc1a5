"""Finds the lines of a chunk that a rule may match, without looking at the others.

From each pattern the literals are derived of which any match has one. A literal that is absent from a chunk costs a
third of a nanosecond a byte (``bytes.find``), which no regular expression reaches; but there are hundreds of literals.
So a few short *gates* are looked for first, chosen such that each literal contains one of them. And most logs say the
same over and over with other numbers: without their digits the lines of a chunk are few different ones, and what none
of those has, no line has.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any, Dict, List, Optional, Sequence, Tuple

try:
    from re import _constants as ops  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # Python before 3.11
    import sre_constants as ops
    import sre_parse as parser

LONG_ENOUGH = 12
"""Characters of a literal; longer ones are no better."""
_MOST = 12
"""Texts that one part of a pattern may stand for, to be put together with what stands beside it."""
GATE = 4
"""Characters of a gate: shorter ones occur in any text."""
_COMMON = frozenset(
    (b"ing ", b"tion", b" the", b"the ", b"ed t", b"ion ", b" for", b"for ", b"s in", b" to ", b"with", b"rank",
     b"from", b"ted ", b"ent ")
)  # fmt: skip
"""What any log has: no gates."""
_DIGITS = b"0123456789"
_ALIKE = 4
"""Lines for each different one from which on it pays to look at the different ones alone."""
_FEW = 64
"""Lines that are searched one by one at most."""


def required(pattern: str) -> Tuple[str, ...]:
    """Literals of which any text that the pattern matches has one; empty where there are none."""
    return tuple(_best(parser.parse(pattern)) or ())


def _best(tree: Any) -> Optional[List[str]]:
    """The alternatives of the most telling part of a sequence: the longest, then the fewest."""
    found: List[List[str]] = []
    runs = [""]
    for op, argument in [*tree, (None, None)]:
        exact = _exact(op, argument)
        if exact is not None and len(runs) * len(exact) <= _MOST:
            runs = [run + more for run in runs for more in exact]
            continue
        found.append(runs)
        runs = exact or [""]
        if exact is not None:
            continue
        inner: Optional[List[str]] = None
        if op is ops.SUBPATTERN and not (argument[1] | argument[2]) & re.IGNORECASE:
            inner = _best(argument[-1])
        elif op in (ops.MAX_REPEAT, ops.MIN_REPEAT) and argument[0] > 0:
            inner = _best(argument[2])
        elif op is ops.BRANCH:
            branches = [_best(branch) for branch in argument[1]]
            inner = [literal for branch in branches for literal in branch or ()] if all(branches) else None
        found.append(inner or [""])
    return max((each for each in found if all(each)), key=_worth, default=None)


def _exact(op: Any, argument: Any) -> Optional[List[str]]:
    """All texts that one part of a pattern matches, where they are few."""
    if op is ops.LITERAL:
        return [chr(argument)]
    if op in (ops.AT, ops.ASSERT, ops.ASSERT_NOT):
        return [""]
    if op is ops.IN and len(argument) <= 3 and all(item is ops.LITERAL for item, _ in argument):
        return [chr(code) for _, code in argument]
    if op is ops.SUBPATTERN and not (argument[1] | argument[2]) & re.IGNORECASE:
        return _exact_sequence(argument[-1])
    if op is ops.BRANCH:
        branches = [_exact_sequence(branch) for branch in argument[1]]
        if all(branch is not None for branch in branches):
            whole = [text for branch in branches for text in branch or ()]
            return whole if len(whole) <= _MOST else None
    return None


def _exact_sequence(tree: Any) -> Optional[List[str]]:
    runs = [""]
    for op, argument in tree:
        exact = _exact(op, argument)
        if exact is None or len(runs) * len(exact) > _MOST:
            return None
        runs = [run + more for run in runs for more in exact]
    return runs


def _worth(literals: List[str]) -> Tuple[int, int]:
    return min(LONG_ENOUGH, *map(len, literals)), -len(literals)


class Scanner:
    """Searches chunks for literals, each with bits of what it stands for."""

    def __init__(self, literals: Sequence[Tuple[bytes, int]]) -> None:
        self._every = _Search(literals)
        self._bare = _Search([(literal.translate(None, _DIGITS), mask) for literal, mask in literals])

    def hits(self, text: bytes) -> Dict[int, int]:
        """Start of each line that has a literal, and the bits of all literals in it; ascending. Lines end with LF."""
        bare = text.translate(None, _DIGITS).split(b"\n")
        kinds = set(bare)
        if len(kinds) * _ALIKE > len(bare):
            return self._every.hits(text)
        joined = b"\n".join(kinds) + b"\n"
        saying = {joined[start : joined.find(b"\n", start)] for start in self._bare.hits(joined)}
        if not saying:
            return {}
        places = [index for index, line in enumerate(bare) if line in saying]
        if len(places) > _FEW:
            return self._every.hits(text)
        lines = text.split(b"\n")
        starts = [0, *accumulate(len(line) + 1 for line in lines)]
        found = {starts[index]: self.mask(lines[index]) for index in places}
        return {start: mask for start, mask in found.items() if mask}

    def mask(self, text: bytes) -> int:
        """Bits of all literals in one line."""
        return self._every.mask(text)


class _Search:
    """Searches for all literals in all lines."""

    def __init__(self, literals: Sequence[Tuple[bytes, int]]) -> None:
        bits: Dict[bytes, int] = {}
        for literal, mask in literals:
            bits[literal] = bits.get(literal, 0) | mask
        self._bits = bits
        self._gated = _gates(sorted(bits))

    def hits(self, text: bytes) -> Dict[int, int]:
        """As of :class:`Scanner`."""
        found: Dict[int, int] = {}
        for gate, literals in self._gated:
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
        """As of :class:`Scanner`."""
        mask = 0
        for gate, literals in self._gated:
            if gate in text:
                for literal in literals:
                    if literal in text:
                        mask |= self._bits[literal]
        return mask


def _gates(literals: Sequence[bytes]) -> List[Tuple[bytes, List[bytes]]]:
    """Few substrings that cover all literals, each with the literals that it stands for: the most shared ones first.

    Which literals have a part is kept as bits of one number: sets of them would take megabytes.
    """
    once: Dict[bytes, int] = {}
    covers: Dict[bytes, int] = {}
    for place, literal in enumerate(literals):
        for at in range(max(1, len(literal) - GATE + 1)):
            part = literal[at : at + GATE]
            first = once.setdefault(part, place)
            if first != place and part not in _COMMON:
                covers[part] = covers.get(part, 1 << first) | 1 << place
    gates: List[Tuple[bytes, List[bytes]]] = []
    left = (1 << len(literals)) - 1
    while covers:
        gate = max(covers, key=lambda part: (bin(covers[part]).count("1"), part))
        bits = covers.pop(gate)
        gates.append((gate, [literal for place, literal in enumerate(literals) if bits >> place & 1]))
        left &= ~bits
        covers = {part: rest for part, shared in covers.items() for rest in (shared & left,) if rest & (rest - 1)}
    return [*gates, *((literal, [literal]) for place, literal in enumerate(literals) if left >> place & 1)]
