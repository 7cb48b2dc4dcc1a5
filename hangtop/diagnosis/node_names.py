"""Names of nodes, folded as schedulers write them: ``gpu[001-064,070],login``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from hangtop.diagnosis.phrasing import listed, ranges

FEW = 4
"""So many names that do not fold are told one by one."""
ROOM = 60
"""Characters of a folded text in a sentence."""
_HOST = re.compile(r"([^.]*?)([0-9]{1,9})(\.[^0-9].*)?|(.*?)([0-9]{1,9})()")
"""A name with a number at its end, and its domain; or an address, whose last number counts."""


def nodes_text(names: Sequence[str]) -> str:
    """``node1 and node2``, ``node[1-64]``; ``a, b, c, d and 60 more`` where folding does not make it short."""
    if len(names) <= 2 or len(text := folded_names(names)) > ROOM:
        return listed(names, FEW)
    return text


def folded_names(names: Iterable[str]) -> str:
    """Names that differ in one number alone are folded: ``gpu[001-004] and login``, ``gpu[1-4].lab.example``."""
    plain: list[str] = []
    parted: list[tuple[str, str, str]] = []
    for name in names:
        if found := _HOST.fullmatch(name):
            stem, number, end = found.group(1, 2, 3) if found.group(2) else found.group(4, 5, 6)
            parted.append((stem, number, end or ""))
        else:
            plain.append(name)
    # of 08, 09 and 10 the last is as long as the others, and no zero says so
    padded = {(stem, len(number), end) for stem, number, end in parted if number.startswith("0") and len(number) > 1}
    groups: dict[tuple[str, int, str], set[int]] = defaultdict(set)
    for stem, number, end in parted:
        groups[stem, len(number) if (stem, len(number), end) in padded else 0, end].add(int(number))
    told = []
    for (stem, width, end), numbers in groups.items():
        parts = ",".join(ranges(sorted(numbers), width))
        told.append(f"{stem}{parts if len(numbers) == 1 else f'[{parts}]'}{end}")
    return listed([*told, *plain], 3)
