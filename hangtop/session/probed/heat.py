"""The bandwidth of every pair of nodes as a square: a bad node is a bad row and column, a bad link a single cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.probes import ProbePair
from hangtop.session.probed.shades import Line, Shade

BARS = "▁▂▃▄▅▆▇█"
FAILED = "×"
UNMEASURED = "·"
WITH_FIGURES = 12
"""Up to this many nodes each cell has its figure; above, its bar alone."""
CELL = 8
GOOD, MIDDLING = 2 / 3, 1 / 3
"""Shares of the best pair; a pair under a third of the others' median is a finding."""
LEGEND = f"GB/s; {BARS[-1]} as fast as the best pair, {BARS[0]} an eighth of it or less, {FAILED} failed"


def heat_map(pairs: Sequence[ProbePair]) -> Iterator[Line]:
    """Rows and columns are nodes in order of their names, each pair in two cells. Nothing for fewer than two pairs."""
    if len(pairs) < 2:
        return
    names = sorted({name for pair in pairs for name in (pair.a, pair.b)})
    cells = {key: pair for pair in pairs for key in ((pair.a, pair.b), (pair.b, pair.a))}
    best = max((pair.busbw or 0.0 for pair in pairs), default=0.0)
    figures = len(names) <= WITH_FIGURES
    width = max(map(len, names))
    yield [(f"pairs, {LEGEND}", "dim")]
    head = "".join(_cut(name, CELL - 1).rjust(CELL) for name in names) if figures else _ruler(len(names))
    yield [(" " * (width + (0 if figures else 4)) + head, "dim")]
    for number, name in enumerate(names, start=1):
        label = name.ljust(width) + ("" if figures else f"{number:>4}")
        yield [(label, ""), *(_cell(cells.get((name, other)), best, figures, name == other) for other in names)]


def _cell(pair: ProbePair | None, best: float, figures: bool, same: bool) -> tuple[str, Shade]:
    width = CELL if figures else 2
    if pair is None:
        return (" " if same else UNMEASURED).rjust(width), "dim"
    if pair.busbw is None:
        return FAILED.rjust(width), "bad"
    share = pair.busbw / best if best else 0.0
    bar = BARS[min(len(BARS) - 1, max(0, int(share * len(BARS) - 1e-9)))]
    shade: Shade = "good" if share >= GOOD else "middling" if share >= MIDDLING else "bad"
    text = f"{bar} {_short(pair.busbw)}" if figures else bar
    return text.rjust(width), shade


def _short(speed: float) -> str:
    """Two digits that count, in at most five characters: 0.0042, 0.11, 1.1, 48, 1200."""
    return (
        f"{speed:.0f}"
        if speed >= 9.95
        else f"{speed:.1f}"
        if speed >= 0.995
        else f"{speed:.2g}"
        if speed >= 0.001
        else "0"
    )


def _cut(name: str, width: int) -> str:
    """The end of a name, which tells nodes of one cluster apart."""
    return name if len(name) <= width else "…" + name[1 - width :]


def _ruler(count: int) -> str:
    """Numbers of the columns, every fifth."""
    return "".join(f"{number if number % 5 == 0 else '':>2}" for number in range(1, count + 1))
