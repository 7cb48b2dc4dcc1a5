"""What changed lately, with what happened to many ranks of a node at once told in one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import NamedTuple, get_args

from hangtop.diagnosis.finding import Outcome
from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import listed, ranks_text
from hangtop.session.history.marks import Mark
from hangtop.session.state.changes import OF_ALL, Change, ChangeKind, Changes
from tui.looks.format import plural
from tui.looks.names import WHOLE, ShortNames
from tui.looks.text import cells
from tui.looks.theme import Tone
from tui.ordering.order import natural

TOGETHER = 2.0
"""Seconds within which the same change of several ranks is one."""


class Sign(NamedTuple):
    """How a kind of change is shown."""

    glyph: str
    tone: Tone
    label: str
    """A word or two."""
    rank: int
    """Of several in one place the highest is shown."""


MARKS: Mapping[ChangeKind, Sign] = {
    "hangtop": Sign("·", Tone.DIM, "", 0),
    "other": Sign("·", Tone.DIM, "", 0),
    "unknown": Sign("◌", Tone.WARN, "unknown", 1),
    "idle": Sign("○", Tone.DIM, "idle", 1),
    "starting": Sign("◐", Tone.INFO, "starting", 1),
    "started": Sign("▸", Tone.TEXT, "started", 2),
    "back": Sign("●", Tone.OK, "back", 2),
    "healthy": Sign("●", Tone.OK, "healthy", 2),
    "dump": Sign("◆", Tone.INFO, "dump", 3),
    "repair": Sign("◆", Tone.INFO, "repair", 3),
    "late": Sign("▲", Tone.WARN, "late", 4),
    "ended": Sign("▾", Tone.WARN, "ended", 4),
    "stopped": Sign("▲", Tone.WARN, "stopped", 5),
    "port": Sign("▲", Tone.WARN, "port", 5),
    "waiting": Sign("◔", Tone.INFO, "waiting", 2),
    "slow": Sign("▲", Tone.WARN, "slow", 6),
    "kernel": Sign("▲", Tone.BAD, "kernel", 6),
    "gpu": Sign("▲", Tone.BAD, "gpu", 6),
    "lost": Sign("✖", Tone.BAD, "lost", 6),
    "at_risk": Sign("▲", Tone.BAD, "at risk", 7),
    "mark": Sign("▼", Tone.ACCENT, "mark", 8),
    "crashed": Sign("✖", Tone.BAD, "crash", 9),
    "hung": Sign("■", Tone.BAD, "hang", 9),
}


OUTCOMES: frozenset[ChangeKind] = frozenset(get_args(Outcome))
"""Kinds of changes that are verdicts."""


def label_of(mark: Mark) -> str:
    """What a mark is, in a word or two."""
    return mark.text if mark.kind == "mark" else MARKS[mark.kind].label


LONG = 32
"""Cells of names of nodes beyond which only their number is told: what happened to them stands behind them."""
_SOURCE = re.compile(r"(\w+): (\w+ → \w+)(?::|$)")
"""A source of samples whose state is another one: its name and which, without why."""
_RANK = re.compile(r"rank (\d+) (.*?)(?: \(pid \d+\))?$")


WIDELY: frozenset[ChangeKind] = frozenset({"started", "back", "lost"})
"""What is told of several nodes in one line; of what ends it matters where it did first."""


@dataclass(slots=True)
class _Told:
    """Changes that are told in one line."""

    newest: Change
    happened: str
    """Without the rank."""
    ranks: list[int] = field(default_factory=list)
    nodes: dict[str, None] = field(default_factory=dict)
    sources: dict[str, None] = field(default_factory=dict)
    """What is read on the nodes, of which it is told."""

    def takes(self, change: Change, happened: str, *, of_rank: bool, source: str = "") -> bool:
        """Whether an older change is one with these: of other sources of the node, or of one source of many nodes."""
        newest = self.newest
        if happened != self.happened or change.kind != newest.kind or of_rank is not bool(self.ranks):
            return False
        if not change.node or newest.at - change.at > TOGETHER or bool(source) is not bool(self.sources):
            return False
        if source:
            return {*self.sources} == {source} or {*self.nodes} == {change.node}
        return of_rank if change.node in self.nodes else change.kind in WIDELY

    def line(self, names: ShortNames, *, more: bool = False) -> Change:
        """All of them; ``more``: and others that are not known any more. Of ranks: who, what, and then where."""
        newest, ranks = self.newest, {*self.ranks}
        several = self.happened.replace("is ", "are ", 1) if self.happened.startswith("is ") else self.happened
        alone = len(self.nodes) == 1
        if more and not alone:
            nodes = f"more than {plural(len(self.nodes), 'node')}"
        else:
            nodes = folded_names(sorted(names.all(self.nodes), key=natural))
            if not alone and cells(nodes) > LONG:
                nodes = plural(len(self.nodes), "node")
        if ranks:
            # of thousands the numbers of those that are remembered say nothing
            who = f"more than {len(ranks):,} ranks" if more else ranks_text(ranks)
            text = f"{who} {several}" if len(ranks) > 1 else newest.text
            return Change(newest.at, "", f"{text} on {nodes}" if nodes else text, newest.kind)
        if self.sources and (len(self.sources) > 1 or not alone):
            return Change(newest.at, nodes, f"{listed(sorted(self.sources))}: {self.happened}", newest.kind)
        return Change(newest.at, nodes, newest.text, newest.kind)


def told(changes: Iterable[Change], most: int, names: ShortNames = WHOLE, *, more: bool = False) -> list[Change]:
    """The newest changes first, at most ``most``; what happened to many ranks, or to many nodes, at once is one line.

    ``more``: there were others before them.
    ``rank 3 started`` and its like are folded to ``ranks 0-7 started on node[1-4]``; sources of samples that come late
    together, to ``fabric, gpus and ranks: ok → late``.
    """
    lines: list[_Told] = []
    for change in changes:
        happened, rank, source = _words(change.text, sources=change.kind in ("late", "back"))
        if lines and lines[-1].takes(change, happened, of_rank=rank is not None, source=source):
            last = lines[-1]
        elif len(lines) == most:
            more = False
            break
        else:
            last = _Told(change, happened)
            lines.append(last)
        last.nodes[change.node] = None
        if rank is not None:
            last.ranks.append(rank)
        if source:
            last.sources[source] = None
    return [line.line(names, more=more and line is lines[-1]) for line in lines]


# While thousands of ranks start all of them are read again every second, the newest first: with room for no more than
# those, each new one would push out the one that is read next.
@lru_cache(maxsize=2 * OF_ALL)
def _words(text: str, *, sources: bool) -> tuple[str, int | None, str]:
    """What happened, without to which rank; which rank; and which source of samples it is told of, if it is of one."""
    read = _SOURCE.match(text) if sources else None
    match = _RANK.match(text)
    happened = read[2] if read is not None else text if match is None else match[2]
    return intern(happened), None if match is None else int(match[1]), "" if read is None else read[1]


MATTERS = 5
"""From this rank on the newest of a kind stays on view, however much happened since."""


class Chosen(NamedTuple):
    """What there is room for, the newest first."""

    lines: list[Change]
    left_out: bool
    """Whether something newer than the oldest of them is not among them."""


class FewLines:
    """What happened to the job, told in few lines. Of a kind of which nothing is new what was told is kept."""

    def __init__(self) -> None:
        self._told: dict[ChangeKind, tuple[Change, int, ShortNames, list[Change]]] = {}
        self._anew = False
        """Something new was told the last time."""

    def chosen(self, changes: Changes, most: int, names: ShortNames = WHOLE) -> Chosen:
        """At most ``most`` lines: the last thing that happened, and the last one of each kind that matters.

        The newest of all fill the rest. So ranks that come and go do not push out what the verdict says, a node that
        was lost or a port that went down. What matters to hangtop alone is none of it.
        """
        self._anew = False
        by_kind = {kind: self._of(changes, kind, most, names) for kind in changes.kinds() if kind != "hangtop"}
        if not self._anew:
            _words.cache_clear()  # of thousands of changes they take a megabyte
        every = sorted((line for lines in by_kind.values() for line in lines), key=_newest_first)
        if len(every) <= most:
            return Chosen(every, left_out=False)
        verdicts = [lines[0] for kind, lines in by_kind.items() if kind in OUTCOMES]
        wanted = [every[0], *sorted(verdicts, key=_newest_first)[:1]]
        matter = [lines[0] for kind, lines in by_kind.items() if MARKS[kind].rank >= MATTERS]
        wanted += sorted(matter, key=lambda line: (-MARKS[line.kind].rank, -line.at))
        kept = {id(line): line for line in (*wanted, *every)}
        shown = sorted([*kept.values()][:most], key=_newest_first)
        return Chosen(shown, left_out=bool(shown) and shown[-1] is not every[most - 1])

    def _of(self, changes: Changes, kind: ChangeKind, most: int, names: ShortNames) -> list[Change]:
        newest = next(changes.of(kind))
        known = self._told.get(kind)
        if known is None or known[0] is not newest or known[1] != most or known[2] is not names:
            self._anew = True
            known = self._told[kind] = (
                newest,
                most,
                names,
                told(changes.of(kind), most, names, more=changes.had_more(kind)),
            )
        return known[3]


def _newest_first(line: Change) -> tuple[float, int]:
    return -line.at, -MARKS[line.kind].rank
