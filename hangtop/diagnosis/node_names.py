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
    """Names that differ in one number alone are folded: ``gpu[001-004] and login``, ``gpu[1-4].lab.example``.

    The number is the one at the end of the host's own name; where that has none, or of an address, the last one.
    """
    groups: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    plain: list[str] = []
    own = [_parted(name) for name in names]
    # of 08, 09 and 10 the last is as long as the others, and no zero says so
    widths = {(stem, len(number), end) for stem, number, end in own if number.startswith("0")}
    for stem, number, end in own:
        if not number:
            plain.append(stem + end)
            continue
        padded = len(number) if (stem, len(number), end) in widths and len(number) > 1 else 0
        groups[stem, padded, end].append(int(number))
    told = [f"{_ranges(stem, padded, sorted(set(numbers)))}{end}" for (stem, padded, end), numbers in groups.items()]
    return listed([*told, *plain], 3)


def _parted(name: str) -> tuple[str, str, str]:
    """What stands before the number, the number, and the domain behind it."""
    host, dot, domain = name.partition(".")
    if not dot or host.isdecimal() or not _number(host):
        host, dot, domain = name, "", ""
    number = _number(host)
    return host.removesuffix(number), number, dot + domain


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
