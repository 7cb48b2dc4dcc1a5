"""The newest lines of the logs of ranks: of those whom the verdict blames, or of one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from tui.logs.line import LogLine
from tui.ordering.rows import RankRow
from tui.view_model import ViewModel

SAME = 40
"""Characters by which a line is known as one that the verdict rests on."""
READ = 2_000
"""Lines of all logs among which they are looked for."""


def lines_of(model: ViewModel, rows: Sequence[RankRow], wanted: int) -> list[LogLine]:
    """The newest lines of these ranks and their nodes' kernels; of a crash the one that the verdict rests on first."""
    paths, ranks, proofs = paths_of(rows), {row.number for row in rows}, _proofs(model)
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


def last_line_of_each(model: ViewModel, rows: Sequence[RankRow]) -> list[str]:
    """The newest line of each of these ranks; empty where none was read."""
    owner = {path: row.number for row in rows for path in paths_of([row])}
    found: dict[int | None, str] = {}
    for line in islice(reversed(model.book.lines), READ):
        found.setdefault(owner.get(line.source, line.rank), line.text)
    return [found.get(row.number, "") for row in rows]


def paths_of(rows: Sequence[RankRow]) -> set[str]:
    """Files that these ranks write."""
    found = set[str]()
    for row in rows:
        process = row.rank.process
        written = {process.stdout, process.stderr, process.nccl_log}
        found |= {path for path, file in row.node.log_files.items() if file.pid == process.pid or path in written}
    return found


def _proofs(model: ViewModel) -> list[str]:
    """What the verdict of a crash rests on, as logs are searched for it: last lines, by which tracebacks end."""
    first = model.accusation if model.crashed else None
    texts = (line.text.strip().splitlines() for line in first.evidence) if first is not None else ()
    return [lines[-1][:SAME] for lines in texts if lines]
