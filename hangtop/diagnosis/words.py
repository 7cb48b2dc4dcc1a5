"""How findings put things: ranks folded, durations rounded, plurals right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def folded(numbers: Iterable[int]) -> str:
    """Fold numbers into ranges: ``0-36,38-63``; empty for none."""
    parts: list[str] = []
    ordered = sorted(set(numbers))
    start = 0
    for index, number in enumerate(ordered):
        if index + 1 < len(ordered) and ordered[index + 1] == number + 1:
            continue
        first = ordered[start]
        parts.append(str(first) if first == number else f"{first}-{number}")
        start = index + 1
    return ",".join(parts)


def ranks_text(ranks: Iterable[int]) -> str:
    """``rank 37`` or ``ranks 0-2,5``."""
    ordered = sorted(set(ranks))
    return f"rank {ordered[0]}" if len(ordered) == 1 else f"ranks {folded(ordered)}"


def who(ranks: Iterable[int], otherwise: str = "a rank") -> str:
    """``rank 37``, ``ranks 0-2``, or the given words where no rank is known."""
    known = set(ranks)
    return ranks_text(known) if known else otherwise


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 rank``, ``63 ranks``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def listed(words: Sequence[str], most: int = 4) -> str:
    """``a``, ``a and b``, ``a, b, c, d and 3 more``."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def on_nodes(nodes: Iterable[str]) -> str:
    """``on node4``, ``on node1 and node2``; empty when no node is known."""
    named = sorted({node for node in nodes if node})
    return f"on {listed(named)}" if named else ""


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``4 min``, ``2.5 h``."""
    if seconds < 9.95:
        text = f"{seconds:.1f}".removesuffix(".0")
        return f"{text} s"
    if seconds < 180:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def size(number: float) -> str:
    """``512 B``, ``1.5 GiB``."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while abs(number) >= 1024 and power < len(units) - 1:
        number /= 1024
        power += 1
    return f"{number:.1f} {units[power]}" if power and number < 100 else f"{number:.0f} {units[power]}"
