"""The newest lines of the logs of those whom the verdict blames."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from textual.strip import Strip

from hangtop.diagnosis.phrasing import ranks_text
from tui.logs.logbook import LogBook, LogLine
from tui.looks.format import clock
from tui.looks.text import cells, fit
from tui.looks.theme import Tone
from tui.ordering.rows import RankRow
from tui.scene import Scene
from tui.widgets.lines import Content, Lines, Piece, ruled, strip_of

MOST = 4
"""Ranks whose lines are shown."""
SAME = 40
"""Characters by which a line is known as one that the verdict rests on."""
READ = 2_000
"""Lines of all logs among which they are looked for."""
_TONES = (Tone.TEXT, Tone.WARN, Tone.BAD)


def paths_of(rows: Sequence[RankRow]) -> set[str]:
    """Files that these ranks write."""
    found = set[str]()
    for row in rows:
        process = row.rank.process
        written = {process.stdout, process.stderr, process.nccl_log}
        found |= {path for path, file in row.node.log_files.items() if file.pid == process.pid or path in written}
    return found


def lines_of(book: LogBook, rows: Sequence[RankRow], wanted: int, proofs: Sequence[str] = ()) -> list[LogLine]:
    """The newest lines of these ranks and their nodes' kernels; one with a ``proof`` of the verdict first."""
    paths, ranks = paths_of(rows), {row.number for row in rows}
    since = {row.node.name: row.rank.process.started for row in rows}
    found: list[LogLine] = []
    fault = None
    for line in islice(reversed(book.lines), READ):
        if len(found) >= wanted and (fault is not None or not proofs):
            break
        # what a node's kernel says has no rank; what it said before there was this one is about others
        kernel = line.rank is None and not line.source.startswith("/") and line.at >= since.get(line.node, float("inf"))
        if line.rank in ranks or line.source in paths or kernel:
            found.append(line)
            fault = line if fault is None and any(part in line.text for part in proofs) else fault
    if fault is not None:  # it may stand above many lines of a traceback, or of what came of it
        found = [fault, *(line for line in found if line is not fault)]
    return found[:wanted]


def told_lines(found: Sequence[LogLine]) -> Content:
    """Time, rank or file, and text of lines."""
    told: Content = []
    for line in found:
        when = f"{'<' if line.before else ' '}{clock(line.at, millis=False)} "
        who = f"r{line.rank}" if line.rank is not None and line.rank >= 0 else line.source.rpartition("/")[2]
        told.append([(when, Tone.DIM), (f"{who} ", Tone.INFO), (line.text, _TONES[line.severity])])
    return told


class LastLines(Lines, can_focus=False):
    """Their lines are asked for only while it is on the screen: they cost the nodes something."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(id="lastlines")
        self.scene = scene
        self._book = LogBook()
        self._whose: list[RankRow] = []
        self._content: Content = []

    def paths(self) -> set[str]:
        """Files that these ranks write."""
        return paths_of(self.scene.accused[:MOST])

    def feed(self) -> None:
        """Take what is new and draw."""
        rows = self.scene.accused[:MOST]
        if [row.number for row in rows] != [row.number for row in self._whose]:
            self.again()
        self._whose = rows
        self._book.take(self.scene.state)
        self._content = told_lines(lines_of(self._book, rows, max(1, self.size.height - 1), self._proofs()))
        self.redraw()

    def _proofs(self) -> list[str]:
        """What the verdict of a crash rests on, as logs are searched for it: last lines, by which tracebacks end."""
        verdict = self.scene.session.verdict
        first = verdict.findings[:1] if verdict is not None and self.scene.crashed else ()
        texts = (line.text.strip().splitlines() for finding in first for line in finding.evidence)
        return [lines[-1][:SAME] for lines in texts if lines]

    def again(self) -> None:
        """Another moment is shown, of which other lines are known."""
        self._book = LogBook()

    def resized(self) -> None:
        """Lay out for another size."""
        self.feed()

    def paint(self, y: int, width: int) -> Strip:
        """A title, then the newest line first."""
        if y == 0:
            title = f" last lines of {ranks_text([row.number for row in self._whose])} "
            title = fit(title, min(cells(title), max(1, width - 10)))
            return strip_of(ruled(title, " 5 Logs ─", width), width, self.ink)
        none: list[Piece] = [(" none was read" if y == 1 else "", Tone.DIM)]
        return strip_of(self._content[y - 1] if y <= len(self._content) else none, width, self.ink)
