"""Sets of ranks as people write them; :func:`hangtop.diagnosis.phrasing.folded` is the other way."""

from __future__ import annotations

from hangtop.diagnosis.unnumbered import parse_processes


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
