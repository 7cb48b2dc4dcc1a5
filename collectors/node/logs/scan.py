"""Finds the lines of a chunk that may say something, without looking at the others.

A literal that is absent from a chunk costs a third of a nanosecond a byte (``bytes.find``), which no regular expression
reaches; but there are a hundred literals. So a few short *gates* are looked for first, chosen such that each literal
contains one of them: a literal whose gate is absent needs no search.

And most logs say the same thing over and over, with other numbers: without their digits, the lines of a chunk are few
different ones, and what none of those has, no line has.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Dict, List, Sequence, Tuple

GATE = 4
"""Characters of a gate: shorter ones occur in any text."""

_COMMON = (
    b"ing ",
    b"tion",
    b" the",
    b"the ",
    b"ed t",
    b"ion ",
    b" for",
    b"for ",
    b"s in",
    b" to ",
    b"with",
    b"rank",
    b"from",
    b"ted ",
    b"ent ",
)
"""What any log has: no gates."""
_DIGITS = b"0123456789"
_ALIKE = 4
"""Lines for each different one from which on it pays to look at the different ones alone."""
_FEW = 64
"""Lines that are searched one by one at most."""


class Scanner:
    """Searches chunks for the literals of many families at once."""

    def __init__(self, stems: Sequence[Tuple[bytes, int]]) -> None:
        """``stems`` are (literal, bits of the families that it belongs to)."""
        self._every = _Search(stems)
        self._bare = _Search([(stem.translate(None, _DIGITS), mask) for stem, mask in stems])

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

    def __init__(self, stems: Sequence[Tuple[bytes, int]]) -> None:
        bits: Dict[bytes, int] = {}
        for stem, mask in stems:
            bits[stem] = bits.get(stem, 0) | mask
        self._bits = bits
        self._gated = _gates(list(bits))

    def hits(self, text: bytes) -> Dict[int, int]:
        """As of :class:`Scanner`."""
        found: Dict[int, int] = {}
        for gate, stems in self._gated:
            if gate not in text:
                continue
            for stem in stems:
                mask = self._bits[stem]
                at = text.find(stem)
                while at >= 0:
                    start = text.rfind(b"\n", 0, at) + 1
                    found[start] = found.get(start, 0) | mask
                    end = text.find(b"\n", at)
                    if end < 0:
                        break
                    at = text.find(stem, end)
        return dict(sorted(found.items()))

    def mask(self, text: bytes) -> int:
        """As of :class:`Scanner`."""
        mask = 0
        for stem, bits in self._bits.items():
            if stem in text:
                mask |= bits
        return mask


def _gates(stems: List[bytes]) -> List[Tuple[bytes, List[bytes]]]:
    """Few substrings that cover all literals, each with the literals that it stands for.

    Which literals have a part is kept as bits of one number: sets of them would take megabytes, which an interpreter
    that has once asked for them seldom gives back.
    """
    gates: List[Tuple[bytes, List[bytes]]] = []
    ordered = sorted(stems)
    left = (1 << len(ordered)) - 1
    covers = _shared_parts(ordered)
    sizes = {part: bin(bits).count("1") for part, bits in covers.items()}
    while covers:
        gate = max(sizes, key=lambda part: (sizes[part], part))
        bits = covers.pop(gate)
        del sizes[gate]
        gates.append((gate, [stem for place, stem in enumerate(ordered) if bits >> place & 1]))
        left &= ~bits
        for part in [part for part, shared in covers.items() if shared & bits]:
            covers[part] &= left
            sizes[part] = bin(covers[part]).count("1")
            if sizes[part] < 2:
                del covers[part], sizes[part]
    return [*gates, *((stem, [stem]) for place, stem in enumerate(ordered) if left >> place & 1)]


def _shared_parts(stems: Sequence[bytes]) -> Dict[bytes, int]:
    """Parts that several literals have, and that not any log has: bit ``n`` is for the ``n``-th literal."""
    once: Dict[bytes, int] = {}
    shared: Dict[bytes, int] = {}
    for place, stem in enumerate(stems):
        for at in range(max(1, len(stem) - GATE + 1)):
            part = stem[at : at + GATE]
            first = once.setdefault(part, place)
            if first != place:
                shared[part] = shared.get(part, 1 << first) | 1 << place
    return {part: bits for part, bits in shared.items() if part not in _COMMON}
