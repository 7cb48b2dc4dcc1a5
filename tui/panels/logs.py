"""Panel 5: the logs of all ranks merged by time, with kernel lines and everything else that says something."""

from __future__ import annotations

import re
import time
from collections.abc import Hashable
from typing import NamedTuple

from textual.app import ComposeResult

from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import rank_text, ranks_text
from tui.logs.line import FIELDS, SEVERITIES
from tui.logs.logbook import LogBook
from tui.looks.format import clock, plural, size
from tui.looks.theme import Colour
from tui.ordering.filter import Filter, quantity
from tui.ordering.rows import Rows
from tui.panels.base import Fact, Panel, Place
from tui.view_model import ViewModel
from tui.widgets.lines import Bar, Lines, Move, Piece
from tui.widgets.loglines import LogView

EVERYTHING = "*"
"""Asks the nodes for raw lines of every followed file, sampled."""

EMPTY = "no line yet: logs of ranks are found through their stdout and stderr; --log names others"
UNREAD = (
    "no line of these files had been read by then: they are read while this panel is open, and of ranks that are blamed"
)
"""The same where nobody can be asked for the lines of files that are known."""
FEW = 16
"""Nodes up to which each line stands alone at first."""
PERIOD = 10.0
"""Seconds after which the files on view are worked out anew though none has come or gone."""


class Proof(NamedTuple):
    """A line that proves something: where it stands, and its words in case the numbers differ."""

    source: str
    line: int
    text: str


class LogsPanel(Panel):
    """The log view under a line that says what is followed."""

    NAME = "logs"
    CAN = frozenset({"filter", "mark", "copy", "details", "node", "ranks", "log"})

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self.book = LogBook()
        self.bar = Bar()
        self.view = LogView(self.book)
        self._files = 0
        self._asked: tuple[Rows, int, Filter, float] | None = None
        """What the files on view were worked out from: of 16,384 that takes a while, and mostly nothing is new."""
        self._wanted: Proof | None = None
        self._folds: bool | None = None
        """Whether lines that are alike are to be one; None: where there are many nodes."""

    @property
    def main(self) -> Lines:
        """The log."""
        return self.view

    def compose(self) -> ComposeResult:
        """The line of totals, then the log."""
        yield self.bar
        yield self.view

    def shown(self) -> None:
        """Ask for the lines of the files on view."""
        self._asked = None
        self._ask()

    def hidden(self) -> None:
        """Raw lines cost the nodes something: none are wanted now."""
        self.model.session.node_settings.view_logs(set())

    def _ask(self) -> None:
        files_known = sum([len(node.log_files) for node in self.model.nodes])
        known = self.model.rows, files_known, self.book.filter, self.model.now // PERIOD
        asked = self._asked
        if asked is not None and asked[0] is known[0] and asked[1:] == known[1:]:
            return
        self._asked = known
        files = [
            (node, self._rank_of(node.name, file.rank, file.pid), path)
            for node in self.model.nodes
            for path, file in node.log_files.items()
        ]
        wanted = {path for node, rank, path in files if self.book.wants(node.name, rank, path)}
        self._files = len(wanted)
        everything = len(wanted) == len({path for _, _, path in files})
        self.model.session.node_settings.view_logs({EVERYTHING} if everything else wanted)

    def _rank_of(self, node: str, rank: int | None, pid: int | None) -> int | None:
        if rank is not None or pid is None:
            return rank
        known = self.model.state.nodes[node].ranks.get(pid)
        return None if known is None else known.process.rank

    def draw(self) -> None:
        """Take the new lines and draw."""
        self.book.fold(len(self.model.nodes) > FEW if self._folds is None else self._folds)
        new = self.book.take(self.model.state)
        self._ask()
        session = self.model.session
        self.view.empty = UNREAD if self._files and session.live and not session.can_act else self.hint(EMPTY)
        self.view.feed(new)
        if self._wanted is not None and self._stand(self._wanted):
            self._wanted = None
        self._tell()

    def renew(self) -> None:
        """Read what was written until then."""
        self.book = self.view.book = self.book.again()
        self.view.following = True

    def _tell(self) -> None:
        """Say which lines are shown, of how many, and what is missing."""
        view, book, moment, line = self.view, self.book, self.model.timeline.at, self.view.current
        if moment is not None:
            pieces: list[Piece] = [(f" ⏸ all until {clock(moment, millis=False)}", Colour.INFO)]
        elif not self.model.session.live:
            pieces = [(" ■ all that was written", Colour.INFO)]
        elif view.following:
            pieces = [(" ● following", Colour.OK)]
        else:
            new = f" · {view.unseen:,} new" if view.unseen else ""
            pieces = [(" ⏸ paused", Colour.WARN), (new, Colour.ACCENT)]
        if moment is None and not view.following and line is not None:
            pieces.append((f" at {clock(line.at)}", Colour.DIM))
        folded = 0 if book.folds is None else book.folds.folded
        shown = len(book.shown) + folded
        of = "" if shown == len(book.lines) else f" of {len(book.lines):,}"
        pieces += [(f"   {shown:,}{of} lines", Colour.TEXT), (f" from {plural(self._files, 'file')}", Colour.DIM)]
        left_out = sum(file.left_out for node in self.model.nodes for file in node.log_files.values())
        for there, text, colour in (
            (folded, f"{folded:,} like others at that time", Colour.DIM),
            (book.lowest, f"{SEVERITIES[book.lowest]} and worse", Colour.WARN),
            (book.skipped, f"{book.skipped:,} lines of a flood not fetched", Colour.WARN),
            (left_out, f"▲ {size(left_out)} not even read there", Colour.WARN),
            (view.marked, f"◆ {len(view.marked):,} marked", Colour.ACCENT),
        ):
            pieces += [(f"   {text}", colour)] if there else []
        self.bar.show(pieces)

    def move(self, how: Move) -> None:
        """Move the cursor; the end follows."""
        self._wanted = None
        self.view.move(how)
        self._tell()

    def set_filter(self, text: str) -> None:
        """Show only what the filter lets through, within the scope."""
        before, self.query_text = self.query_text, text
        try:
            self.book.set_filter(self.narrowed())
        except ValueError:
            self.query_text = before
            raise
        self.view.changed()
        self._ask()

    def fields(self) -> list[str]:
        """What a filter of lines can name."""
        return list(FIELDS)

    def mark(self) -> None:
        """Mark the line."""
        self.view.toggle_mark()
        self._tell()

    def mark_all(self) -> None:
        """Mark every line shown; when all are marked, none."""
        serials = {line.serial for line in self.book.shown}
        self.view.marked = self.view.marked - serials if serials <= self.view.marked else self.view.marked | serials
        self.view.repaint()
        self._tell()

    def pause(self) -> None:
        """Stand still, or follow again."""
        self.view.pause()
        self._tell()

    def go_alarm(self, step: int) -> bool:
        """Go to the next (or previous) warning or error; says whether there is one."""
        found = self.view.go_alarm(step)
        self._tell()
        return found

    def next_severity(self) -> None:
        """Show all, then warnings and errors, then errors alone."""
        self.book.lowest = (self.book.lowest + 1) % len(SEVERITIES)
        self.book.show()
        self.view.changed()
        self._tell()

    def fold(self) -> None:
        """Show lines that are alike as one, or each alone."""
        self._folds = self.book.folds is None
        self.book.fold(self._folds)
        self.view.changed()
        self._tell()

    def go_time(self, text: str) -> str:
        """Go to a time of day (``02:47``, ``02:47:10``) or back by an age (``5m``, ``90s``); says what is wrong."""
        moment = moment_of(text, self.model.now)
        if moment is None:
            return f"“{text}” is no time: write 02:47, 02:47:10 or an age such as 5m"
        self.view.jump(self.book.at(moment))
        self._tell()
        return ""

    def here(self) -> Hashable:
        """The line, when it stands still."""
        return None if self.view.following else self.view.current

    def select(self, key: Hashable) -> None:
        """Stand on a line: one seen before, or the one that a proof names."""
        if isinstance(key, Proof):
            self._wanted = None if self._stand(key) else key
        elif isinstance(key, tuple) and key in self.book.shown:
            self.view.jump(self.book.shown.index(key))

    def _stand(self, proof: Proof) -> bool:
        place = self.book.find(proof.source, proof.line, proof.text)
        if place is not None:
            self.view.jump(place)
        # until it is laid out nobody knows how much has room behind it
        return place is not None and self.view.size.height > 0

    def node(self) -> str | None:
        """Node of the line."""
        line = self.view.current
        return None if line is None else line.node

    def chosen_ranks(self) -> set[int]:
        """Ranks of the marked lines."""
        return {rank for line in self.view.chosen() for rank in self.book.together(line).ranks}

    def details(self) -> tuple[str, list[Fact]] | None:
        """The whole line."""
        line = self.view.current
        if line is None:
            return None
        number = f":{line.line}" if line.line else ""
        together = self.book.together(line)
        who = ranks_text(together.ranks) if together.ranks else folded_names(together.nodes)
        rank = "no rank" if line.rank is None else rank_text(line.rank)
        return "Log line", [
            ("before" if line.before else "at", clock(line.at)),
            ("from", rank if line.rank is not None and line.rank < 0 else f"{rank} on {line.node}"),
            ("file", f"{line.source}{number}"),
            *([("like it", f"{together.label}: {who}")] if together.label else []),
            ("severity", SEVERITIES[line.severity]),
            ("text", line.text),
        ]

    def enter(self) -> Place | None:
        """Nothing lies deeper than a line."""
        return None

    def text(self) -> str:
        """Marked lines, or the one under the cursor."""
        return "\n".join(line.text for line in self.view.chosen())


def moment_of(text: str, now: float) -> float | None:
    """Read a local time of day (the last one before now) or an age; None when it is neither."""
    match = re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", text.strip())
    if match is None:
        ago = quantity(text.strip().removeprefix("-"))
        return None if ago is None else now - ago
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    today = time.localtime(now)
    moment = time.mktime((*today[:3], hour, minute, second, 0, 0, -1))
    return moment if moment <= now else moment - 86_400
