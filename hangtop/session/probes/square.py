"""The bandwidth of every pair of nodes as a square: a bad node is a bad row and column, a bad link a single cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from collectors.samples.probes import ProbePair
from hangtop.session.probes import Line, Shade

BARS = "▁▂▃▄▅▆▇█"
FAILED = "×"
UNMEASURED = "·"
WITH_FIGURES = 12
"""Up to this many nodes each cell has its figure; above, its bar alone."""
CELL = 8
GAP = 2
"""Characters between the columns of two leaves."""
GOOD, MIDDLING = 2 / 3, 1 / 3
"""Shares of the best pair; a pair under a third of the others' median is a finding."""
LEGEND = f"GB/s; {BARS[-1]} as fast as the best pair, {BARS[0]} an eighth of it or less, {FAILED} failed"


def square(pairs: Sequence[ProbePair], leaves: Mapping[str, str] | None = None) -> Iterator[Line]:
    """Rows and columns are nodes, each pair in two cells. Nothing for fewer than two pairs.

    In the order of their names; with the leaf switches of nodes, those of one switch together, with a gap between
    switches, so that what crosses a slow switch is a block.
    """
    if len(pairs) < 2:
        return
    leaves = leaves or {}
    measured = {name for pair in pairs for name in (pair.a, pair.b)}
    names = sorted(measured, key=lambda name: (name not in leaves, leaves.get(name, ""), name))
    by = ", by leaf switch" if leaves else ""
    yield [(f"pairs{by}, {LEGEND}", "dim")]
    homes = [leaves.get(name, "") for name in names]
    gaps = [" " * GAP if number and home != homes[number - 1] else "" for number, home in enumerate(homes)]
    home_width = max(len(home) + 2 if home else 0 for home in homes)
    cells = {key: pair for pair in pairs for key in ((pair.a, pair.b), (pair.b, pair.a))}
    best = max((pair.busbw or 0.0 for pair in pairs), default=0.0)
    figures = len(names) <= WITH_FIGURES
    width = max(map(len, names))
    numbers = [f"{number if number % 5 == 0 else '':>2}" for number in range(1, len(names) + 1)]
    heads = [_cut(name, CELL - 1).rjust(CELL) for name in names] if figures else numbers
    head = "".join(gap + text for gap, text in zip(gaps, heads, strict=True))
    yield [(" " * (home_width + width + (0 if figures else 4)) + head, "dim")]
    for number, (name, home, gap_before) in enumerate(zip(names, homes, gaps, strict=True), start=1):
        if gap_before:
            yield []
        first = number == 1 or bool(gap_before)
        title = name.ljust(width) + ("" if figures else f"{number:>4}")
        line: Line = [((home if first else "").ljust(home_width), "dim"), (title, "")]
        for gap, other in zip(gaps, names, strict=True):
            text, shade = _cell(cells.get((name, other)), best, CELL if figures else 2, name == other)
            line.append((gap + text, shade))
        yield line


def _cell(pair: ProbePair | None, best: float, width: int, same: bool) -> tuple[str, Shade]:
    if pair is None:
        return (" " if same else UNMEASURED).rjust(width), "dim"
    if pair.busbw is None:
        return FAILED.rjust(width), "bad"
    share = pair.busbw / best if best else 0.0
    bar = BARS[min(len(BARS) - 1, max(0, int(share * len(BARS) - 1e-9)))]
    shade: Shade = "good" if share >= GOOD else "middling" if share >= MIDDLING else "bad"
    return (f"{bar} {_short(pair.busbw)}" if width >= CELL else bar).rjust(width), shade


def _short(speed: float) -> str:
    """Two digits that count, in at most five characters: 0.004, 0.042, 0.11, 1.1, 48, 1200."""
    if speed >= 0.995:
        return f"{speed:.0f}" if speed >= 9.95 else f"{speed:.1f}"
    return f"{speed:.2g}" if speed >= 0.01 else f"{speed:.1g}" if speed >= 0.001 else "0"


def _cut(name: str, width: int) -> str:
    """The end of a name, which tells nodes of one cluster apart."""
    return name if len(name) <= width else "…" + name[1 - width :]
