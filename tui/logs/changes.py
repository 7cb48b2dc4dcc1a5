"""What changed lately, with what happened to many ranks of a node at once told in one line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import listed, ranks_text
from hangtop.session.state.changes import Change, Changes, Mark
from tui.looks.format import plural
from tui.looks.names import WHOLE, ShortNames
from tui.looks.signs import change_sign, is_outcome
from tui.looks.text import cells
from tui.ordering.order import natural

TOGETHER = 2.0
"""Seconds within which the same change of several ranks is one."""
LONG = 32
"""Cells of names of nodes beyond which only their number is told: what happened to them stands behind them."""
MATTERS = 5
"""From this rank on the newest of a kind stays on view, however much happened since."""
STARTING = 60.0
"""Seconds from the beginning on in which sources of samples that come late are no news: all begin at once."""
WIDELY = frozenset({"started", "back", "lost"})
"""What is told of several nodes in one line; of what ends it matters where it did first."""
_SOURCE = re.compile(r"(\w+): (\w+ → \w+)(?::|$)")
"""A source of samples whose state is another one: its name and which, without why."""
_RANK = re.compile(r"rank (\d+) (.*?)(?: \(pid \d+\))?$")


def label_of(mark: Mark) -> str:
    """What a mark is, in a word or two."""
    return mark.text if mark.kind == "mark" else change_sign(mark.kind).label


@dataclass(slots=True)
class _Told:
    """Changes that are told in one line."""

    newest: Change
    happened: str
    """Without the rank."""
    ranks: list[int] = field(default_factory=list)
    nodes: dict[str, None] = field(default_factory=dict)
    sources: dict[str, None] = field(default_factory=dict)

    def takes(self, change: Change, happened: str, *, of_rank: bool, source: str) -> bool:
        """Whether an older change is one with these: of other sources of the node, or of one source of many nodes."""
        newest = self.newest
        if happened != self.happened or change.kind != newest.kind or of_rank is not bool(self.ranks):
            return False
        if not change.node or newest.at - change.at > TOGETHER or bool(source) is not bool(self.sources):
            return False
        if source:
            return {*self.sources} == {source} or {*self.nodes} == {change.node}
        return of_rank if change.node in self.nodes else change.kind in WIDELY

    def line(self, names: ShortNames) -> Change:
        """All of them: who, what, and then where."""
        newest, alone = self.newest, len(self.nodes) == 1
        nodes = folded_names(sorted(names.all(self.nodes), key=natural))
        if not alone and cells(nodes) > LONG:
            nodes = plural(len(self.nodes), "node")
        if self.ranks:
            several = self.happened.replace("is ", "are ", 1) if self.happened.startswith("is ") else self.happened
            text = f"{ranks_text({*self.ranks})} {several}" if len({*self.ranks}) > 1 else newest.text
            return Change(newest.at, "", f"{text} on {nodes}" if nodes else text, newest.kind)
        if self.sources and (len(self.sources) > 1 or not alone):
            return Change(newest.at, nodes, f"{listed(sorted(self.sources))}: {self.happened}", newest.kind)
        return Change(newest.at, nodes, newest.text, newest.kind)


def told(changes: Iterable[Change], most: int, names: ShortNames = WHOLE) -> list[Change]:
    """The newest first, at most ``most``: ``ranks 0-7 started on node[1-4]``, ``fabric and gpus: ok → late``."""
    lines: list[_Told] = []
    for change in changes:
        happened, rank, source = _words(change.text, change.kind in ("late", "back"))
        if lines and lines[-1].takes(change, happened, of_rank=rank is not None, source=source):
            last = lines[-1]
        elif len(lines) == most:
            break
        else:
            last = _Told(change, happened)
            lines.append(last)
        last.nodes[change.node] = None
        if rank is not None:
            last.ranks.append(rank)
        if source:
            last.sources[source] = None
    return [line.line(names) for line in lines]


@lru_cache(maxsize=65_536)
def _words(text: str, of_source: bool) -> tuple[str, int | None, str]:
    """What happened, without to which rank; which rank; and which source of samples it is told of, if it is of one."""
    read = _SOURCE.match(text) if of_source else None
    match = _RANK.match(text)
    happened = read[2] if read is not None else text if match is None else match[2]
    return happened, None if match is None else int(match[1]), "" if read is None else read[1]


def chosen(changes: Changes, most: int, names: ShortNames = WHOLE, began: float = 0.0) -> list[Change]:
    """At most ``most`` lines, the newest first: the newest of all, and the last one of each kind that matters.

    So ranks that come and go do not push out what the verdict says, a node that was lost or a port that went down.
    What matters to hangtop alone is none of it, and neither are its own sources that come late as it begins.
    """
    lines: list[Change] = []
    for kind in changes.kinds():
        if kind != "hangtop":
            own = (one for one in changes.of(kind) if not _is_chatter(one, began))
            lines += told(own, most, names)
    lines.sort(key=lambda line: (-line.at, -change_sign(line.kind).rank))
    newest_of = {line.kind: line for line in reversed(lines) if change_sign(line.kind).rank >= MATTERS}
    matter = sorted(newest_of.values(), key=lambda line: (-change_sign(line.kind).rank, -line.at))
    verdict = [line for line in lines if is_outcome(line.kind)][:1]
    kept = {id(line): line for line in (*lines[:1], *verdict, *matter, *lines)}
    return sorted([*kept.values()][:most], key=lambda line: -line.at)


def _is_chatter(change: Change, began: float) -> bool:
    return change.kind in ("late", "back") and change.at < began + STARTING and _SOURCE.match(change.text) is not None
