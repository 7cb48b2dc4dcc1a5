"""Names of nodes, folded as schedulers write them: ``gpu[001-064,070],login``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from hangtop.diagnosis.phrasing import listed

LONGEST = 9
"""Digits of a number; what stands before them is part of the name."""
FEW = 4
"""So many names are told one by one."""
ROOM = 60
"""Characters of a folded text in a sentence."""
_DIGITS = "0123456789"


def nodes_text(names: Sequence[str]) -> str:
    """``node1 and node2``, ``node[1-64]``; ``a, b, c, d and 60 more`` where folding does not make it short."""
    if len(names) <= FEW or len(text := folded_names(names)) > ROOM:
        return listed(names, FEW)
    return text


def folded_names(names: Iterable[str]) -> str:
    """Names that differ in their last number alone are folded: ``gpu[001-004] and login``."""
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    plain: list[str] = []
    own = [(name, _number(name)) for name in names]
    # of 08, 09 and 10 the last is as long as the others, and no zero says so
    widths = {(name.removesuffix(number), len(number)) for name, number in own if number.startswith("0")}
    for name, number in own:
        if not number:
            plain.append(name)
            continue
        stem = name.removesuffix(number)
        padded = len(number) if (stem, len(number)) in widths and len(number) > 1 else 0
        groups[stem, padded].append(int(number))
    told = [_ranges(prefix, padded, sorted(set(numbers))) for (prefix, padded), numbers in groups.items()]
    return listed([*told, *plain], 3)


def _number(name: str) -> str:
    return name[max(len(name.rstrip(_DIGITS)), len(name) - LONGEST) :]


def _ranges(prefix: str, padded: int, numbers: Sequence[int]) -> str:
    parts: list[str] = []
    start = 0
    for index, number in enumerate(numbers):
        if index + 1 < len(numbers) and numbers[index + 1] == number + 1:
            continue
        first, last = f"{numbers[start]:0{padded}}", f"{number:0{padded}}"
        parts.append(first if first == last else f"{first}-{last}")
        start = index + 1
    return f"{prefix}{parts[0]}" if len(numbers) == 1 else f"{prefix}[{','.join(parts)}]"
