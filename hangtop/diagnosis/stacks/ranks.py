"""Sets of ranks as people write them."""

from __future__ import annotations

from collections.abc import Iterable


def rank_set(ranks: Iterable[int]) -> str:
    """Fold numbers into ranges: ``{0, 1, 2, 5}`` is ``0-2,5``; empty for none."""
    parts: list[str] = []
    ordered = sorted(set(ranks))
    index = 0
    while index < len(ordered):
        last = index
        while last + 1 < len(ordered) and ordered[last + 1] == ordered[last] + 1:
            last += 1
        first = ordered[index]
        parts.append(str(first) if last == index else f"{first}-{ordered[last]}")
        index = last + 1
    return ",".join(parts)


def parse_ranks(text: str) -> frozenset[int]:
    """Unfold ``3,7-9``. Raises :class:`ValueError` for anything else."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"no ranks: {text!r} (write them as 3,7-9)")
        low, high = int(first), int(last or first)
        if high < low or high - low > 1_000_000:
            raise ValueError(f"no range: {part.strip()!r}")
        found.update(range(low, high + 1))
    return frozenset(found)
