"""The newest log lines of some ranks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from tui.logs.line import LogLine
from tui.ordering.rows import RankRow
from tui.view_model import ViewModel

READ = 2_000
"""Newest lines of all logs that are searched."""


def lines_of(model: ViewModel, rows: Sequence[RankRow], wanted: int) -> list[LogLine]:
    """The newest lines of these ranks, at most ``wanted``, newest first."""
    paths, ranks = paths_of(rows), {row.number for row in rows}
    newest = islice(reversed(model.book.lines), READ)
    return list(islice((line for line in newest if line.rank in ranks or line.source in paths), wanted))


def last_line_of_each(model: ViewModel, rows: Sequence[RankRow]) -> list[str]:
    """The newest line of each of these ranks; empty without one."""
    owner = {path: row.number for row in rows for path in paths_of([row])}
    found: dict[int | None, str] = {}
    for line in islice(reversed(model.book.lines), READ):
        found.setdefault(owner.get(line.source, line.rank), line.text)
    return [found.get(row.number, "") for row in rows]


def paths_of(rows: Sequence[RankRow]) -> set[str]:
    """Paths of the log files that these ranks write."""
    found = set[str]()
    for row in rows:
        process = row.rank.process
        written = {process.stdout, process.stderr, process.nccl_log}
        found |= {path for path, file in row.node.log_files.items() if file.pid == process.pid or path in written}
    return found
