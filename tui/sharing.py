"""How the overview shares its lines: what tells most gets its room first."""

from __future__ import annotations

from typing import NamedTuple

FEW = 16
"""Nodes up to which each rank has a line of its own."""
SOME = 128
"""Nodes up to which each GPU has two cells; of more, each node has half a block."""
MANY = 1024
"""Nodes from which on their map has the lines of the charts where there are few."""
FEW_ODD, MOST_ODD = 5, 8
"""Lines of nodes that differ then, and of fewer nodes."""
BESIDE = 110
"""Cells from which on ranks and what happened stand beside each other."""
WIDE = 150
"""Cells from which on what happened stands beside the heat map of a larger job."""
GRAPH = 7
"""Lines in which a picture of waits says something: a title, and boxes with two lines or more."""
MOST_GRAPH = 12
"""Lines that it has at the most beside the map of a larger job."""
BOTH = 12
"""Lines from which on what happened and the culprit's last lines stand below each other there."""
HAPPENED = 8
"""Lines with which what happened, and the culprit's last lines, say enough: what is more is the ranks' that need it."""
RANKS_BELOW = 9
"""Lines that the map of a larger job must leave for its first ranks to stand below it: a blank one above and below, a
title, heads, and five of them."""
ONSET_LEAST = 28
"""Lines beside the charts from which on each rank has a line of its own on a narrow screen, too."""
MOST_TIME = 32
"""Lines of the charts of a small job that does not fill the rest."""
LEAST_TIME = 8
"""Lines that charts keep where nodes of a small job need theirs."""
VIEWS = ("each GPU in figures", "two cells a GPU", "half a block a node")
"""From the closest to the farthest."""


class Shares(NamedTuple):
    """Lines of each part; 0 leaves it out."""

    time: int
    heat: int
    """At most; what it does not need goes to what is below."""
    onset: int
    """Lines of the ranks where they stand above what happened; where they stand beside it, as many as are left."""
    beside: bool
    """Ranks and what happened, or those and the heat map, stand side by side."""
    graph: int = 0
    """Lines of who waits for whom; beside the ranks of a small job, theirs, too."""
    card: int = 0
    """Lines of the node under the cursor."""
    odd: int = 0
    """Lines of nodes that differ from the others."""
    lines: bool = False
    """Whether the last lines of the culprit are shown, beside or below what happened."""
    row: bool = False
    """What is below the map stands side by side."""


def usual_view(nodes: int) -> int:
    """Place in :data:`VIEWS` of what shows a job of so many nodes best."""
    return 0 if nodes <= FEW else 1 if nodes <= SOME else 2


def shares(
    width: int,
    height: int,
    nodes: int,
    view: int = 0,
    *,
    hangs: bool = False,
    crashed: bool = False,
    need: int = 16,
    waits: int = MOST_GRAPH,
    figures: int = 0,
    odd: int = MOST_ODD,
    story: int = 0,
    charts: int = MOST_TIME,
) -> Shares:
    """Share ``height`` lines of ``width`` cells among the line of time, the map, the ranks, waits and what happened.

    Of a small job its ranks, and the picture of waits where it hangs, fill ``need`` lines, that picture alone
    ``waits``, and its GPUs ``figures``; 0 where that is not known yet. Nodes that differ fill ``odd`` lines, with their
    title. Of one that ``crashed`` the last lines of whom the verdict names are shown, too. What happened, or those
    lines, fill ``story``, and the charts at most ``charts``.
    """
    named = hangs or crashed
    time = next((lines for lines, least in ((16, 42), (12, 30), (8, 25), (3, 15)) if height >= least), 0)
    if view:
        # thousands of nodes need every line to stand in their groups
        time = min(time, 12 if height >= 44 else 3 if nodes > MANY else 8)
    left = height - time
    if view:
        beside = width >= (WIDE if view == 1 else BESIDE)
        found = _mosaic(width, height, time, hangs=hangs, named=named, beside=beside, waits=waits)
        most = FEW_ODD if nodes > MANY and found.beside else MOST_ODD
        spared = max(0, found.odd - min(odd, most))
        return found._replace(odd=found.odd - spared, heat=found.heat + spared)
    if nodes > FEW:
        return _map(width, time, left, hangs=hangs, named=named)
    longest = max(time, min(charts, MOST_TIME))
    if hangs:
        return _lengthened(_hung(width, time, left, nodes, need), height, figures, story, longest)
    below = 2 * HAPPENED if crashed else HAPPENED
    found = _small(width, time, left, figures, max(need, below) if width >= BESIDE else below, longest)
    taken = found.time + (min(found.heat, figures) if figures else found.heat) + (0 if found.beside else found.onset)
    return found._replace(lines=crashed and height - taken >= BOTH)


def _small(width: int, time: int, left: int, figures: int, below: int, longest: int) -> Shares:
    """Of a job that does not hang, with so many lines ``below`` its ``figures``; what is more is the charts'."""
    filled = figures + below
    if figures and (width >= BESIDE or left < ONSET_LEAST) and filled < left:
        longer = min(longest, time + left - filled)
        found = _few(width, longer, time + left - longer)
        return found._replace(heat=max(found.heat, figures))
    found = _few(width, time, left)
    missing = figures - found.heat
    if 0 < missing <= time - LEAST_TIME:  # better all nodes and a chart less
        return found._replace(time=time - missing, heat=figures)
    return found


def _few(width: int, time: int, left: int) -> Shares:
    beside = width >= BESIDE
    below = max(5, left * 2 // 5)
    onset = 1 if beside else (below + 4 if left >= ONSET_LEAST else 0)
    if onset and not beside:
        below += onset
    return Shares(time, max(3, left - below), onset, beside)


def _hung(width: int, time: int, left: int, nodes: int, need: int) -> Shares:
    """Who waits matters, not how much each GPU does: the map becomes small."""
    beside = width >= BESIDE
    heat = max(3, min(nodes + 1, left // 4))
    rest = left - heat
    if beside:
        graph = max(GRAPH, min(need, max(rest * 3 // 5, rest - HAPPENED)))
        return Shares(time, heat, 1, beside, graph if rest >= GRAPH + 5 else 0, lines=rest >= GRAPH + 5)
    graph = min(12, rest - 5) if rest >= GRAPH + 5 else 0
    if not graph:  # who waits is told by the cells alone
        return Shares(time, max(heat, min(nodes, left - HAPPENED)), 0, beside)
    spare = rest - graph - 6
    return Shares(time, heat, spare if graph and spare >= 6 else 0, beside, graph)


def _lengthened(found: Shares, height: int, figures: int, story: int, longest: int) -> Shares:
    """Of a job that hangs: charts have what neither what happened nor the last lines beside it fill."""
    if not (found.beside and found.graph and figures and story):
        return found
    free = height - found.time - min(found.heat, figures) - found.graph - max(HAPPENED, story)
    return found._replace(time=found.time + max(0, min(free, longest - found.time)))


def _map(width: int, time: int, left: int, *, hangs: bool, named: bool) -> Shares:
    beside = width >= WIDE
    if beside:
        graph = min(14, left // 2) if hangs and left >= 2 * GRAPH else 0
        return Shares(time, left, 0, beside, graph, lines=named and left - graph >= 14)
    heat = max(3, min(left * 3 // 4, left - 6))
    if hangs and left >= GRAPH + 9:
        return Shares(time, left - GRAPH - 6, 0, beside, GRAPH)
    return Shares(time, heat, 0, beside)


def _mosaic(width: int, height: int, time: int, *, hangs: bool, named: bool, beside: bool, waits: int) -> Shares:
    left = height - time
    if width >= BESIDE and not beside:
        # names of nodes and two cells a GPU need the whole width; then what is told of them stands below
        if height < 40:
            time = min(time, 3)
        left = height - time
        below = min(8 if height < 40 else 11, left // 2) if left >= 14 else 4
        graph = below if hangs and below >= GRAPH else 0
        odd = 3 if left - below >= 10 else 0
        heat = max(3, left - below - odd - 1)
        return Shares(time, heat, 0, False, graph, 0 if graph or below < 8 else below, odd, row=True)
    if beside:
        card = min(13, left // 2) if left >= 12 else 0
        graph = min(MOST_GRAPH, max(GRAPH, waits), left - card - 4) if hangs and left - card - 4 >= GRAPH else 0
        odd = min(MOST_ODD, max(3, left // 4)) if left >= 9 else 0
        return Shares(time, left - odd, 0, beside, graph, card, odd, lines=named and left - card - graph >= BOTH)
    graph = GRAPH + 1 if hangs and left >= GRAPH + 10 else 0
    odd = 3 if left - graph >= 12 else 0
    return Shares(time, max(3, left - graph - odd - 4), 0, beside, graph, 0, odd)
