"""Sets of ranks as people write them."""

from __future__ import annotations

from collections.abc import Iterable

from hangtop.diagnosis.unnumbered import folded_processes, numbered, parse_processes


def rank_set(ranks: Iterable[int]) -> str:
    """Fold numbers into ranges: ``{0, 1, 2, 5}`` is ``0-2,5``; empty for none.

    Processes without a number are written ``node2:4711+4712``.
    """
    parts: list[str] = []
    every = set(ranks)
    ordered = sorted(numbered(every))
    index = 0
    while index < len(ordered):
        last = index
        while last + 1 < len(ordered) and ordered[last + 1] == ordered[last] + 1:
            last += 1
        first = ordered[index]
        parts.append(str(first) if last == index else f"{first}-{ordered[last]}")
        index = last + 1
    return ",".join([*parts, *folded_processes(every)])


def parse_ranks(text: str) -> frozenset[int]:
    """Unfold ``3,7-9``, and ``node2:4711`` for a process without a number.

    Raises :class:`ValueError` for anything else.
    """
    found: set[int] = set()
    for part in text.split(","):
        processes = parse_processes(part)
        if processes is not None:
            found.update(processes)
            continue
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"no ranks: {text!r} (write them as 3,7-9, a process without a number as NODE:PID)")
        low, high = int(first), int(last or first)
        if high < low or high - low > 1_000_000:
            raise ValueError(f"no range: {part.strip()!r}")
        found.update(range(low, high + 1))
    return frozenset(found)
