"""Panel 5: the logs of all ranks and the kernel logs, merged by time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from textual.app import ComposeResult

from hangtop.diagnosis.phrasing import count, rank_text
from tui.logs.line import FIELDS, SEVERITIES
from tui.logs.logbook import LogBook
from tui.looks.format import clock, size
from tui.looks.theme import Colour
from tui.ordering.filter import Filter
from tui.ordering.rows import Rows
from tui.panels.base import Panel, Selection
from tui.view_model import ViewModel
from tui.widgets.lines import Bar, Lines, Move, Piece
from tui.widgets.loglines import LogView

EVERYTHING = "*"
"""Asks the nodes for sampled raw lines of every followed file."""

EMPTY = "no line yet: hangtop follows the stdout and stderr of ranks; --log adds files"


class Proof(NamedTuple):
    """A log line in evidence: its place, and its text in case line numbers differ."""

    source: str
    line: int
    text: str


class LogsPanel(Panel):
    """A line of totals, and the log view."""

    NAME = "logs"
    CAN = frozenset({"filter", "details", "ranks", "log"})

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self.book = LogBook()
        self.bar = Bar()
        self.view = LogView(self.book)
        self._files = 0
        self._asked: tuple[Rows, int, Filter] | None = None
        """Input of the last computation of the wanted files: for 16,384 files it is slow, and rarely needed."""
        self._wanted: Proof | None = None

    @property
    def main(self) -> Lines:
        """The log."""
        return self.view

    def compose(self) -> ComposeResult:
        """The line of totals, then the log."""
        yield self.bar
        yield self.view

    def shown(self) -> None:
        """Ask the nodes for the raw lines of the shown files."""
        self._asked = None
        self._ask()

    def hidden(self) -> None:
        """Stop asking for raw lines, which cost the nodes CPU."""
        self.model.session.node_settings.view_logs(set())

    def _ask(self) -> None:
        files_known = sum([len(node.log_files) for node in self.model.nodes])
        known = self.model.rows, files_known, self.book.filter
        if self._asked is not None and self._asked[0] is known[0] and self._asked[1:] == known[1:]:
            return
        self._asked = known
        files = [
            (node.name, self._rank_of(node.name, file.rank, file.pid), path)
            for node in self.model.nodes
            for path, file in node.log_files.items()
        ]
        wanted = {path for node, rank, path in files if self.book.wants(node, rank, path)}
        self._files = len(wanted)
        everything = len(wanted) == len({path for _, _, path in files})
        self.model.session.node_settings.view_logs({EVERYTHING} if everything else wanted)

    def _rank_of(self, node: str, rank: int | None, pid: int | None) -> int | None:
        if rank is not None or pid is None:
            return rank
        known = self.model.state.nodes[node].ranks.get(pid)
        return None if known is None else known.process.rank

    def draw(self) -> None:
        """Take new lines and draw."""
        new = self.book.take(self.model.state)
        self._ask()
        self.view.empty = self.model.hint(EMPTY)
        self.view.feed(new)
        if self._wanted is not None and self._stand(self._wanted):
            self._wanted = None
        self._tell()

    def renew(self) -> None:
        """Start with an empty book, and read the lines up to the shown moment."""
        self.book = self.view.book = self.book.again()
        self.view.following = True

    def _tell(self) -> None:
        """Show which lines are visible, of how many, and what is missing."""
        view, book, moment, line = self.view, self.book, self.model.timeline.at, self.view.current
        pieces: list[Piece] = [(" ● following", Colour.OK)]
        if moment is not None:
            pieces = [(f" ⏸ lines until {clock(moment)}", Colour.INFO)]
        elif not self.model.session.live:
            pieces = [(" ■ whole logs", Colour.INFO)]
        elif not view.following:
            new = f" · {view.unseen:,} new" if view.unseen else ""
            pieces = [(" ⏸ paused", Colour.WARN), (new, Colour.ACCENT)]
            pieces += [] if line is None else [(f" at {clock(line.at, millis=True)}, End follows again", Colour.DIM)]
        of = "" if len(book.shown) == len(book.lines) else f" of {len(book.lines):,}"
        pieces += [
            (f"   {len(book.shown):,}{of} lines", Colour.TEXT),
            (f" from {count(self._files, 'file')}", Colour.DIM),
        ]
        left_out = sum(file.left_out for node in self.model.nodes for file in node.log_files.values())
        for there, text in (
            (book.lowest, f"{SEVERITIES[book.lowest]} and worse"),
            (book.skipped, f"{book.skipped:,} lines skipped: they came too fast"),
            (left_out, f"▲ {size(left_out)} not read on the nodes"),
        ):
            pieces += [(f"   {text}", Colour.WARN)] if there else []
        self.bar.show(pieces)

    def move(self, how: Move) -> None:
        """Move the cursor; the end follows new lines."""
        self._wanted = None
        self.view.move(how)
        self._tell()

    def set_filter(self, text: str) -> None:
        """Show only lines that pass the filter and the scope."""
        before, self.query_text = self.query_text, text
        try:
            self.book.set_filter(self.narrowed())
        except ValueError:
            self.query_text = before
            raise
        self.view.changed()
        self._ask()

    def fields(self) -> list[str]:
        """Names of the fields of a line."""
        return list(FIELDS)

    def next_severity(self) -> None:
        """Show all lines, then warnings and errors, then only errors."""
        self.book.lowest = (self.book.lowest + 1) % len(SEVERITIES)
        self.book.show()
        self.view.changed()
        self._tell()

    def here(self) -> Hashable:
        """The line under the cursor, unless the view follows new lines."""
        return None if self.view.following else self.view.current

    def select(self, key: Hashable) -> None:
        """Put the cursor on a line: a known one, or the line of a :class:`Proof`, now or as soon as it arrives."""
        if isinstance(key, Proof):
            self._wanted = None if self._stand(key) else key
        elif isinstance(key, tuple) and key in self.book.shown:
            self.view.jump(self.book.shown.index(key))

    def _stand(self, proof: Proof) -> bool:
        place = self.book.find(proof.source, proof.line, proof.text)
        if place is not None:
            self.view.jump(place)
        # before the layout the number of visible lines is unknown
        return place is not None and self.view.size.height > 0

    def selection(self) -> Selection:
        """The line under the cursor, and the rank that wrote it."""
        line = self.view.current
        if line is None:
            return Selection()
        number = f":{line.line}" if line.line else ""
        rank = "no rank" if line.rank is None else rank_text(line.rank)
        facts = [
            ("before" if line.before else "at", clock(line.at, millis=True)),
            ("from", rank if line.rank is not None and line.rank < 0 else f"{rank} on {line.node}"),
            ("file", f"{line.source}{number}"),
            ("severity", SEVERITIES[line.severity]),
            ("text", line.text),
        ]
        return Selection(line.node, set() if line.rank is None else {line.rank}, "Log line", facts, line.text)
