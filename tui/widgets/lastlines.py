"""The newest lines of the logs of ranks: of those whom the verdict blames, or of one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from hangtop.diagnosis.phrasing import ranks_text
from tui.logs.line import LogLine
from tui.looks.format import clock
from tui.looks.theme import Colour
from tui.ordering.rows import RankRow
from tui.view_model import ViewModel
from tui.widgets.textview import TextView

MOST = 4
"""Ranks whose lines are shown."""
SAME = 40
"""Characters by which a line is known as one that the verdict rests on."""
READ = 2_000
"""Lines of all logs among which they are looked for."""
_TONES = (Colour.TEXT, Colour.WARN, Colour.BAD)


def lines_of(model: ViewModel, rows: Sequence[RankRow], wanted: int, proofs: Sequence[str] = ()) -> list[LogLine]:
    """The newest lines of these ranks and their nodes' kernels; one with a ``proof`` of the verdict first."""
    paths, ranks = paths_of(rows), {row.number for row in rows}
    since = {row.node.name: row.rank.process.started for row in rows}
    found: list[LogLine] = []
    fault = None
    for line in islice(reversed(model.book.lines), READ):
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


def paths_of(rows: Sequence[RankRow]) -> set[str]:
    """Files that these ranks write."""
    found = set[str]()
    for row in rows:
        process = row.rank.process
        written = {process.stdout, process.stderr, process.nccl_log}
        found |= {path for path, file in row.node.log_files.items() if file.pid == process.pid or path in written}
    return found


class LastLines(TextView, can_focus=False):
    """Their lines are asked for only while it is on the screen: they cost the nodes something."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(id="lastlines", hint="5 Logs")
        self.model = model

    def paths(self) -> set[str]:
        """Files that these ranks write."""
        return paths_of(self.model.accused[:MOST])

    def draw(self) -> None:
        """Take what is new and draw."""
        rows = self.model.accused[:MOST]
        found = lines_of(self.model, rows, max(1, self.size.height - 1), self._proofs())
        content = [
            [
                (f"{'<' if line.before else ' '}{clock(line.at, millis=False)} ", Colour.DIM),
                (f"{line.writer} ", Colour.INFO),
                (line.text, _TONES[line.severity]),
            ]
            for line in found
        ]
        self.show(
            content or [[(" none was read", Colour.DIM)]], f"last lines of {ranks_text([r.number for r in rows])}"
        )

    def _proofs(self) -> list[str]:
        """What the verdict of a crash rests on, as logs are searched for it: last lines, by which tracebacks end."""
        verdict = self.model.session.verdict
        first = verdict.findings[:1] if verdict is not None and self.model.crashed else ()
        texts = (line.text.strip().splitlines() for finding in first for line in finding.evidence)
        return [lines[-1][:SAME] for lines in texts if lines]
