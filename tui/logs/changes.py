"""Recent events, with equal events of many ranks or nodes in one line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hangtop.diagnosis.phrasing import count, folded_names, ranks_text
from hangtop.session.state import Change, Kept
from tui.looks.text import cells
from tui.ordering.rows import natural

TOGETHER = 2.0
"""Seconds within which equal events of several ranks or nodes are merged."""
LONG = 32
"""Most cells of node names; longer lists show only the number of nodes."""
WIDELY = frozenset({"started", "back", "lost", "late"})
"""Kinds that are merged across nodes; other events keep their node, because the first node matters."""
_SOURCE = re.compile(r"\w+: \w+ → \w+(?::|$)")
"""Text of a changed state of a source: ``gpus: ok → late``."""
_RANK = re.compile(r"rank (\d+) (.*?)(?: \(pid \d+\))?$")


def merged(changes: Iterable[Change], most: int) -> list[Change]:
    """Merged events in the given order (newest first), at most ``most``: ``ranks 0-7 started on node[1-4]``."""
    groups: list[tuple[str, list[Change]]] = []
    for change in changes:
        match = _RANK.match(change.text)
        happened = change.text if match is None else match[2]
        first = groups[-1][1][0] if groups else change
        alike = groups and happened == groups[-1][0] and change.kind == first.kind and change.node
        if alike and first.at - change.at <= TOGETHER and (change.kind in WIDELY or change.node == first.node):
            groups[-1][1].append(change)
        elif len(groups) == most:
            break
        else:
            groups.append((happened, [change]))
    return [_line(happened, group) for happened, group in groups]


def _line(happened: str, group: list[Change]) -> Change:
    """One event for a group: ranks, text, nodes."""
    first, where = group[0], {change.node for change in group}
    nodes = folded_names(sorted(where, key=natural))
    if len(where) > 1 and cells(nodes) > LONG:
        nodes = count(len(where), "node")
    ranks = {int(match[1]) for change in group if (match := _RANK.match(change.text))}
    if not ranks:
        return Change(first.at, nodes, first.text, first.kind)
    several = re.sub("^is ", "are ", happened)
    text = f"{ranks_text(ranks)} {several}" if len(ranks) > 1 else first.text
    return Change(first.at, "", f"{text} on {nodes}" if nodes else text, first.kind)


def chosen(changes: Kept[Change], most: int) -> list[Change]:
    """At most ``most`` events, newest first.

    Without events of hangtop itself and changed states of sources, which panel 6 shows.
    """
    newest = (change for kind, change in reversed(changes) if kind != "hangtop")
    return merged((change for change in newest if _SOURCE.match(change.text) is None), most)
