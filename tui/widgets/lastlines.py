"""The newest lines of the logs of those whom the verdict blames."""

from __future__ import annotations

from itertools import islice

from textual.strip import Strip

from hangtop.diagnosis.phrasing import ranks_text
from tui.logs.logbook import LogBook, LogLine
from tui.looks.format import clock
from tui.looks.text import cells, fit
from tui.looks.theme import Tone
from tui.ordering.rows import RankRow
from tui.scene import Scene
from tui.widgets.happened import FEW_LINES
from tui.widgets.lines import Lines, Piece, strip_of

MOST = 4
"""Ranks whose lines are shown."""
SAME = 40
"""Characters by which a line is known as one that the verdict rests on."""
READ = 2_000
"""Lines of all logs among which they are looked for."""


class LastLines(Lines):
    """Asks for the lines only while it is on the screen: they cost the nodes something."""

    DEFAULT_CSS = """
    LastLines { scrollbar-size: 0 0; overflow: hidden; }
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="lastlines")
        self.scene = scene
        self._book = LogBook()
        self._rows: list[LogLine] = []
        self._whose: tuple[int, ...] = ()
        self.fills = 0
        """Lines that all of it fills, with the title, :data:`FEW_LINES` at the most."""

    def ranks(self) -> tuple[int, ...]:
        """The first of those who are blamed for a wait, or named for what else is wrong."""
        return self.scene.waiting.blamed[:MOST] or tuple(row.number for row in self._rows_of())

    def paths(self) -> set[str]:
        """Files that these ranks write."""
        found = set[str]()
        for row in self._rows_of():
            process = row.rank.process
            written = {process.stdout, process.stderr, process.nccl_log}
            found |= {path for path, file in row.node.log_files.items() if file.pid == process.pid or path in written}
        return found

    def _rows_of(self) -> list[RankRow]:
        return self.scene.accused[:MOST]

    def feed(self) -> None:
        """Take what is new and draw."""
        whose = self.ranks()
        if whose != self._whose:
            self.again()
            self._whose = whose
        self._book.take(self.scene.state)
        paths, since = self.paths(), {row.node.name: row.rank.process.started for row in self._rows_of()}
        found: list[LogLine] = []
        fault, parts = None, self._told()
        room = max(0, self.size.height - 1)
        wanted = max(room, FEW_LINES)
        for line in islice(reversed(self._book.lines), READ):
            if len(found) >= wanted and (fault is not None or not parts):
                break
            # what a node's kernel says has no rank; what it said before there was this one is about others
            own = line.rank is None and not line.source.startswith("/")
            of_node = own and line.at >= since.get(line.node, float("inf"))
            if line.rank in whose or line.source in paths or of_node:
                found.append(line)
                fault = line if fault is None and any(part in line.text for part in parts) else fault
        if fault is not None:  # it may stand above many lines of a traceback, or of what came of it
            found = [fault, *(line for line in found if line is not fault)]
        self._rows, self.fills = found[:room], 1 + min(len(found), FEW_LINES)
        self.redraw()

    def _told(self) -> list[str]:
        """What the verdict of a crash rests on, as logs are searched for it: last lines, by which tracebacks end."""
        verdict = self.scene.session.verdict
        first = verdict.findings[:1] if verdict is not None and self.scene.crashed else ()
        texts = (line.text.strip().splitlines() for finding in first for line in finding.evidence)
        return [lines[-1][:SAME] for lines in texts if lines]

    def again(self) -> None:
        """Another moment is shown, of which other lines are known."""
        self._book = LogBook()

    def on_resize(self) -> None:
        """Lay out for the new size at once."""
        super().on_resize()
        self.feed()

    def paint(self, y: int, width: int) -> Strip:
        """A title, then the newest line first."""
        if y == 0:
            title = fit(title := f" last lines of {ranks_text(self._whose)} ", min(cells(title), max(1, width - 10)))
            right = " 5 Logs ─"
            line = "─" * max(0, width - cells(title) - cells(right))
            return strip_of([(title + line + right, Tone.DIM)], width, self.ink)
        if y - 1 >= len(self._rows):
            text = "none was read" if y == 1 else ""
            return strip_of([(f" {text}", Tone.DIM)], width, self.ink)
        line_ = self._rows[y - 1]
        tone = (Tone.TEXT, Tone.WARN, Tone.BAD)[line_.severity]
        when = f"<{clock(line_.at, millis=False)}" if line_.before else f" {clock(line_.at, millis=False)}"
        who = f"r{line_.rank}" if line_.rank is not None and line_.rank >= 0 else line_.source.rpartition("/")[2]
        pieces: list[Piece] = [(f"{when} ", Tone.DIM), (f"{who} ", Tone.INFO), (line_.text, tone)]
        return strip_of(pieces, width, self.ink)
