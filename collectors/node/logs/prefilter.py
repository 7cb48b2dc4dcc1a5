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
from typing import Dict, List, Optional, Sequence, Tuple

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


_TOKEN = re.compile(
    r"\\(?P<escaped>[^A-Za-z0-9])|(?P<anchor>\\[bBAZ]|[\^$])|\\u(?P<code>[0-9a-f]{4})|(?P<any>\\[A-Za-z0-9]|\.)"
    r"|\[(?P<chosen>[^\^\\\]-][^\\\]-]{1,2})\]|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<around>\(\?<?[=!])|(?P<blind>\(\?i:)"
    r"|(?P<flags>\(\?[a-z]+\))|(?P<open>\((?:\?:|\?P<\w+>)?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<repeat>[*+?]\??|\{\d*,?\d*\}\??)|(?P<text>[^\\\[\](){}|*+?.^$]+|[{}\]])",
    re.DOTALL,
)
Texts = Optional[List[str]]


def required(pattern: str) -> Tuple[str, ...]:
    """Literals of which any text that the pattern matches has one; empty where there are none."""
    tokens = [(str(match.lastgroup), match.group(match.lastgroup or 0)) for match in _TOKEN.finditer(pattern)]
    exact, best, _ = _alternatives(tokens, 0)
    return tuple(best or [text for text in exact or () if text])


def _alternatives(tokens: Sequence[Tuple[str, str]], at: int) -> Tuple[Texts, Texts, int]:
    """Of a group, from its first token on: all texts that it matches, where they are few; its literals; its end."""
    exacts: List[Texts] = []
    bests: List[Texts] = []
    while True:
        exact, best, at = _sequence(tokens, at)
        exacts.append(exact)
        bests.append(best)
        if at >= len(tokens) or tokens[at][0] == "close":
            break
        at += 1
    whole = [text for exact in exacts for text in exact or ()]
    exact = whole if all(each is not None for each in exacts) and len(whole) <= _MOST else None
    return exact, [text for best in bests for text in best or ()] if all(bests) else None, at


def _sequence(tokens: Sequence[Tuple[str, str]], at: int) -> Tuple[Texts, Texts, int]:
    """The same of one alternative: the most telling of its parts counts, the longest, then that of the fewest."""
    found: List[List[str]] = []
    runs, is_exact = [""], True
    while at < len(tokens) and tokens[at][0] not in ("close", "bar"):
        kind, text = tokens[at]
        exact, best, at = _part(tokens, at)
        repeat = tokens[at][1] if at < len(tokens) and tokens[at][0] == "repeat" else ""
        if repeat and kind == "text" and len(text) > 1:  # it repeats the last character alone
            runs = [run + text[:-1] for run in runs]
            exact = [text[-1]]
        if repeat:
            at += 1
            best, exact = (None if repeat[0] in "*?" or repeat.startswith(("{0", "{,")) else best or exact), None
        if exact is not None and len(runs) * len(exact) <= _MOST:
            runs = [run + more for run in runs for more in exact]
            continue
        is_exact = False
        found += [runs, best or [""]]
        runs = exact or [""]
    found.append(runs)
    telling = [each for each in found if all(each)]
    return runs if is_exact else None, max(telling, key=_worth) if telling else None, at


def _part(tokens: Sequence[Tuple[str, str]], at: int) -> Tuple[Texts, Texts, int]:
    """The same of one part: characters, a set of them, or a group; where the next one begins."""
    kind, text = tokens[at]
    if kind in ("text", "escaped"):
        return [text], [text], at + 1
    if kind == "code":
        return [chr(int(text, 16))], None, at + 1
    if kind == "chosen":
        return list(text), None, at + 1
    if kind in ("anchor", "flags"):
        return [""], None, at + 1
    if kind in ("open", "around", "blind"):
        exact, best, at = _alternatives(tokens, at + 1)
        if kind != "open":
            exact, best = [""] if kind == "around" else None, None
        return exact, best, at + 1
    return None, None, at + 1


def _worth(literals: List[str]) -> Tuple[int, int]:
    return min(LONG_ENOUGH, *map(len, literals)), -len(literals)


class Scanner:
    """Searches chunks for literals, each with bits of what it stands for."""

    def __init__(self, literals: Sequence[Tuple[bytes, int]]) -> None:
        self._every = _Search(literals)
        self._literals = literals
        self._bare: Optional[_Search] = None
        """The same without digits, made when the first chunk of lines that are alike comes."""

    def hits(self, text: bytes) -> Dict[int, int]:
        """Start of each line that has a literal, and the bits of all literals in it; ascending. Lines end with LF."""
        bare = text.translate(None, _DIGITS).split(b"\n")
        kinds = set(bare)
        if len(kinds) * _ALIKE > len(bare):
            return self._every.hits(text)
        if self._bare is None:
            self._bare = _Search([(literal.translate(None, _DIGITS), mask) for literal, mask in self._literals])
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
    sizes = {part: bin(bits).count("1") for part, bits in covers.items()}
    while covers:
        gate = max(sizes, key=lambda part: (sizes[part], part))
        bits = covers.pop(gate)
        del sizes[gate]
        gates.append((gate, [literal for place, literal in enumerate(literals) if bits >> place & 1]))
        left &= ~bits
        for part in [part for part, shared in covers.items() if shared & bits]:
            covers[part] &= left
            sizes[part] = bin(covers[part]).count("1")
            if sizes[part] < 2:
                del covers[part], sizes[part]
    return [*gates, *((literal, [literal]) for place, literal in enumerate(literals) if left >> place & 1)]
