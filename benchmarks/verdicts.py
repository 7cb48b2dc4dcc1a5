"""Verdicts of the suites, each with how sure it said to be and whether it was right: kept, and counted.

Each suite keeps its rows in ``benchmarks/results/verdicts/<suite>.json``; a case that is played again replaces its row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import RESULTS

FOLDER = RESULTS / "verdicts"
NOTHING = "nothing"
"""Stands for the certainty of an answer that raises nothing."""


class JudgedAnswer(NamedTuple):
    """One answer about one case."""

    case: str
    way: str
    """``triage``, ``live``, ``replay``; with the variant of the nodes after a slash where there is one."""
    healthy: bool
    """Nothing may be raised about this case."""
    said: str
    """``hung: rank_stuck_in_data [2]``."""
    certainty: str
    """Of the first finding that is more than information; :data:`NOTHING` where there is none."""
    right: bool
    took_s: float


def kept(suite: str) -> list[JudgedAnswer]:
    """Rows of a suite; none where it was never played."""
    path = _path(suite)
    if not path.exists():
        return []
    return [JudgedAnswer(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def keep(suite: str, rows: Iterable[JudgedAnswer]) -> None:
    """Put rows into their places among those of a suite."""
    known = {(row.case, row.way): row for row in (*kept(suite), *rows)}
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps([row._asdict() for _, row in sorted(known.items())], indent=1)
    _path(suite).write_text(text + "\n", encoding="utf-8")


def suites() -> list[str]:
    """Names of the suites that were played."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def _path(suite: str) -> Path:
    return FOLDER / f"{suite}.json"
