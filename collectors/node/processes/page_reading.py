"""Reads the page of a process out of its bytes. Whoever made them may have written anything: all of it is checked.

:mod:`collectors.samples.page` says what lies where.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from collectors.node.files import text
from collectors.samples import page as layout
from collectors.samples.inside import InsideFacts, InsideFinding, InsidePulse, InsideResult

HEAD = 8 * 32
"""Bytes at the beginning that hold all numbers."""
LINES, RESULTS, FINDINGS, EVIDENCE, RANKS = 32, 16, 16, 16, 4096
"""Entries that are taken of lists in a page."""
TEXT = 1000
"""Characters of one text."""
SEVERITIES = ("critical", "warning", "info")
LATEST = 1e10
"""Seconds since the epoch beyond which a time is none."""

_WORDS = struct.Struct("=32q")
_FLOATS = struct.Struct("=32d")


class PageHead(NamedTuple):
    """The numbers of a page at one moment."""

    pid: int
    """As the process knows itself."""
    started: float
    rank: int
    step: int
    step_at: float
    phase: int
    phase_at: float

    def pulse(self, pid: int) -> InsidePulse:
        """Where the process is, which is known by this pid here."""
        step_at, phase_at = _moment(self.step_at), _moment(self.phase_at)
        stepped = self.step >= 0 and step_at is not None
        named = 0 < self.phase < len(layout.PHASE_NAMES) and phase_at is not None
        return InsidePulse(
            pid,
            self.step if stepped else None,
            step_at if stepped else None,
            layout.PHASE_NAMES[self.phase] if named else "",
            phase_at if named else None,
        )

    def moving(self) -> Tuple[int, float, int, float]:
        """What moves: two reads in which it is the same met no write under way."""
        return self.step, self.step_at, self.phase, self.phase_at


def head_of(data: bytes) -> Optional[PageHead]:
    """The numbers at the beginning of a page; None for bytes that are no page of a version that is known here."""
    if len(data) < HEAD or data[:8] != layout.MAGIC:
        return None
    words, floats = _WORDS.unpack_from(data), _FLOATS.unpack_from(data)
    if words[layout.VERSION_WORD] not in layout.READABLE or words[layout.SIZE_WORD] != layout.SIZE:
        return None
    return PageHead(
        pid=words[layout.PID],
        started=floats[layout.STARTED],
        rank=words[layout.RANK],
        step=words[layout.STEP],
        step_at=floats[layout.STEP_AT],
        phase=words[layout.PHASE],
        phase_at=floats[layout.PHASE_AT],
    )


def facts_of(data: bytes, pid: int) -> InsideFacts:
    """What start() opened, out of a whole page."""
    pipe, *did = _text(data, layout.SAID, layout.SAID_LIMIT).split("\n")
    return InsideFacts(pid, pipe[:TEXT], [line[:TEXT] for line in did[:LINES]])


def answer_sequence(data: bytes) -> int:
    """Number of the answer in a whole page; odd while one is being written."""
    return int(struct.unpack_from("=q", data, 8 * layout.ANSWER_SEQUENCE)[0]) if len(data) >= layout.SIZE else 0


def results_of(data: bytes, pid: int) -> List[InsideResult]:
    """Results of checks, out of a whole page; what is none is left out."""
    said = _text(data, layout.ANSWER, layout.ANSWER_LIMIT)
    try:
        rows = json.loads(said) if said else []
    except (ValueError, RecursionError):
        return []
    made = [_result(pid, row) for row in rows[:RESULTS]] if isinstance(rows, list) else []
    return [result for result in made if result is not None]


def _result(pid: int, row: Any) -> Optional[InsideResult]:
    if not isinstance(row, dict):
        return None
    check, at = _string(row, "check"), _number(row, "at")
    if check not in layout.CHECKS or not 0.0 <= at < LATEST:
        return None
    findings = row.get("findings")
    made = [_finding(one) for one in findings[:FINDINGS]] if isinstance(findings, list) else []
    return InsideResult(
        pid=pid,
        check=check,
        at=at,
        ranks=_ranks(row),
        ok=row.get("ok") is True,
        seconds=_number(row, "seconds"),
        summary=_string(row, "summary"),
        findings=[finding for finding in made if finding is not None],
    )


def _finding(row: Any) -> Optional[InsideFinding]:
    if not isinstance(row, dict) or _string(row, "severity") not in SEVERITIES:
        return None
    lines = row.get("evidence")
    evidence = [line[:TEXT] for line in lines[:EVIDENCE] if isinstance(line, str)] if isinstance(lines, list) else []
    return InsideFinding(
        _string(row, "kind"), _string(row, "severity"), _string(row, "summary"), _ranks(row), evidence,
        _string(row, "advice"),
    )  # fmt: skip


def _ranks(row: Dict[str, Any]) -> List[int]:
    ranks = row.get("ranks")
    if not isinstance(ranks, list):
        return []
    return [rank for rank in ranks[:RANKS] if type(rank) is int and 0 <= rank < 1 << 24]


def _string(row: Dict[str, Any], name: str) -> str:
    value = row.get(name)
    return value[:TEXT] if isinstance(value, str) else ""


def _number(row: Dict[str, Any], name: str) -> float:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e15:
        return 0.0
    return float(value)


def _moment(seconds: float) -> Optional[float]:
    return round(seconds, 3) if math.isfinite(seconds) and 0.0 < seconds < LATEST else None


def _text(data: bytes, place: int, limit: int) -> str:
    length = int.from_bytes(data[place : place + 4], "little")
    return text(data[place + 4 : place + 4 + length]) if 0 < length <= limit else ""
