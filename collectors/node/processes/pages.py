"""Source ``pages``: what ranks that called ``hangtop.inside.start()`` tell, by the pages that they share.

A page is found by its name among the open files of a rank, which the kernel shows to the rank's user and to root. It is
read as any file is: nothing is traced, stopped or asked. A name proves nothing, so a page must lie where memfds lie,
belong to the rank's user and say that it is of this very process: what a rank forks has its parent's. Whoever made its
bytes may have written anything: all of it is checked. :mod:`collectors.samples.page` says what lies where.
"""

from __future__ import annotations

import json
import math
import os
import struct
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from collectors.node.files import link, list_folder, opened, regular, text
from collectors.node.processes.procfs import read_status
from collectors.node.source import Shared, Source
from collectors.samples import page as layout
from collectors.samples.inside import InsideFinding, InsideGone, InsidePulse, InsideResult
from collectors.samples.logs import StepCount
from collectors.samples.ranks import RankProcess

FILES = 2048
"""Open files of a rank that are looked through, those with the lowest numbers first."""
PAGES = 256
"""Pages that are held open; a node has no more ranks."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between two searches at a rank that has none; they double, as one may start late, and most never do."""
ENTRIES, RANKS, TEXT = 16, 4096, 1000
"""Entries of a list, ranks of a result, and characters of a text that are taken."""
SEVERITIES = ("critical", "warning", "info")
LATEST = 1e10
"""Seconds since the epoch beyond which a time is none."""
_NAME = "/memfd:%s " % layout.NAME
_HEAD = 8 * 32
"""Bytes at the beginning that hold all numbers."""


class OpenPage:
    """One page that is open, and what was told of it."""

    def __init__(self, file: int, pid: int, inner_pid: int) -> None:
        self.file = file
        self.pid = pid
        self._inner_pid = inner_pid
        self._told = 0
        """Sequence of the answers that were told last."""
        self._results: List[InsideResult] = []
        self._step: Optional[int] = None
        self._grown = 0

    def pulse(self) -> Optional[InsidePulse]:
        """Step and phase as two reads agree on, so that no write was under way; None where the page is gone."""
        last = None
        for _ in range(3):
            found = read_pulse(self._read(_HEAD), self.pid, self._inner_pid)
            if found is None or found == last:
                return found
            last = found
        return last

    def steps(self, pulse: InsidePulse, rank: int) -> Optional[StepCount]:
        """Its step as a log that counts steps would tell it; None before the first."""
        if pulse.step is None:
            return None
        self._grown += max(0, pulse.step - self._step) if self._step is not None else 0
        self._step = pulse.step
        number = None if rank < 0 else rank
        path = "hangtop.inside, pid %d" % self.pid
        return StepCount(path, self.pid, number, "step", float(pulse.step), pulse.step_at, self._grown, 0)

    def results(self) -> List[InsideResult]:
        """The latest results of checks."""
        place = 8 * layout.ANSWER_SEQUENCE
        if int.from_bytes(self._read(8, place), "little") != self._told:
            whole = self._read(layout.SIZE)
            sequence = int.from_bytes(whole[place : place + 8], "little")
            if sequence % 2 == 0:  # else one is being written
                self._told, self._results = sequence, read_results(whole, self.pid)
        return self._results

    def pipe(self) -> str:
        """Beginning of the path of the recorder's pipe that its process opened; empty for none."""
        return _text_at(self._read(layout.SIZE), layout.SAID, layout.SAID_LIMIT).partition("\n")[0][:TEXT]

    def close(self) -> None:
        """Let go of it."""
        os.close(self.file)

    def _read(self, size: int, place: int = 0) -> bytes:
        try:
            return os.pread(self.file, size, place)
        except OSError:
            return b""


class Missed(NamedTuple):
    """A rank in which none was found."""

    again: float
    pause: float


class PageSource(Source):
    """The pages of all ranks here."""

    name = "pages"

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._pages: Dict[int, OpenPage] = {}
        self._missed: Dict[int, Missed] = {}
        self._device = memfd_device()

    def look(self, now: float) -> Iterator[NamedTuple]:
        """Step and phase of each, and the results of checks."""
        ranks = {rank.pid: rank for rank in self.shared.ranks}
        for pid in [pid for pid in self._pages if pid not in ranks]:
            yield self._drop(pid, now)
        self._missed = {pid: missed for pid, missed in self._missed.items() if pid in ranks}
        for pid, rank in ranks.items():
            page = self._pages.get(pid) or self._search(rank, time.monotonic())
            pulse = None if page is None else page.pulse()
            if page is not None and pulse is not None:
                yield pulse
                steps = page.steps(pulse, rank.rank)
                if steps is not None:
                    yield steps
                yield from page.results()
            elif page is not None:
                yield self._drop(pid, now)

    def _search(self, rank: RankProcess, moment: float) -> Optional[OpenPage]:
        missed = self._missed.get(rank.pid, Missed(moment, FIRST_PAUSE / 2))
        if moment < missed.again or len(self._pages) >= PAGES or self._device is None:
            return None
        page = find(self.proc, rank.pid, rank.uid, self._device)
        if page is not None:
            self._missed.pop(rank.pid, None)
            self._pages[rank.pid] = page
            return page
        pause = min(2 * missed.pause, LONGEST_PAUSE)
        self._missed[rank.pid] = Missed(moment + pause, pause)
        return None

    def _drop(self, pid: int, now: float) -> InsideGone:
        self._pages.pop(pid).close()
        return InsideGone(pid, now)


def find(proc: str, pid: int, uid: int, device: int) -> Optional[OpenPage]:
    """The page of a process of this user, open; None where there is none, or it may not be looked for.

    ``device`` is where memfds lie (:func:`memfd_device`).
    """
    folder = "%s/%d/fd" % (proc, pid)
    status = read_status(proc, pid)
    for number in sorted(int(name) for name in list_folder(folder) if name.isdigit())[:FILES]:
        path = "%s/%d" % (folder, number)
        if status is None or not link(path).startswith(_NAME):
            continue
        try:
            file = opened(path, lambda found: regular(found) and (found.st_dev, found.st_uid) == (device, uid))
        except OSError:
            continue
        page = OpenPage(file, pid, status.inner_pid)
        if page.pulse() is not None:
            return page
        page.close()
    return None


def told_pipe(pid: int, proc: str = "/proc") -> str:
    """Beginning of the path of the recorder's pipe that a process opened itself, as its page says; empty for none."""
    device, status = memfd_device(), read_status(proc, pid)
    page = None if device is None or status is None else find(proc, pid, status.uid, device)
    if page is None:
        return ""
    pipe = page.pipe()
    page.close()
    return pipe


def memfd_device() -> Optional[int]:
    """The device on which this kernel keeps memfds: no file that has a name anywhere lies there. None without any."""
    try:
        file = os.memfd_create("hangtop-where", os.MFD_CLOEXEC)
    except (OSError, AttributeError):
        return None
    try:
        return os.fstat(file).st_dev
    finally:
        os.close(file)


# --- the bytes of a page --------------------------------------------------------------------------------------------


def read_pulse(data: bytes, pid: int, inner_pid: int) -> Optional[InsidePulse]:
    """Step and phase; None for bytes that are no page, of another version, or of another process's page."""
    if len(data) < _HEAD or data[:8] != layout.MAGIC:
        return None
    words, floats = struct.unpack_from("=32q", data), struct.unpack_from("=32d", data)
    if words[layout.VERSION_WORD] != layout.VERSION or words[layout.SIZE_WORD] != layout.SIZE:
        return None
    if words[layout.PID] != inner_pid:
        return None
    step, phase = words[layout.STEP], words[layout.PHASE]
    step_at, phase_at = _moment(floats[layout.STEP_AT]), _moment(floats[layout.PHASE_AT])
    stepped = step >= 0 and step_at is not None
    named = 0 < phase < len(layout.PHASE_NAMES) and phase_at is not None
    return InsidePulse(
        pid=pid,
        step=step if stepped else None,
        step_at=step_at if stepped else None,
        phase=layout.PHASE_NAMES[phase] if named else "",
        phase_at=phase_at if named else None,
    )


def read_results(data: bytes, pid: int) -> List[InsideResult]:
    """Results of checks, out of a whole page; what is none is left out."""
    try:
        rows = json.loads(_text_at(data, layout.ANSWER, layout.ANSWER_LIMIT) or "[]")
    except (ValueError, RecursionError):
        return []
    results: List[InsideResult] = []
    for row in _rows(rows):
        check, at = _string(row, "check"), _number(row, "at")
        if check in layout.CHECKS and 0.0 <= at < LATEST:
            findings = [_finding(one) for one in _rows(row.get("findings")) if _string(one, "severity") in SEVERITIES]
            summary, seconds = _string(row, "summary"), _number(row, "seconds")
            results.append(InsideResult(pid, check, at, _ranks(row), row.get("ok") is True, seconds, summary, findings))
    return results


def _finding(row: Dict[str, Any]) -> InsideFinding:
    lines = row.get("evidence")
    return InsideFinding(
        kind=_string(row, "kind"),
        severity=_string(row, "severity"),
        summary=_string(row, "summary"),
        ranks=_ranks(row),
        evidence=[line[:TEXT] for line in lines[:ENTRIES] if isinstance(line, str)] if isinstance(lines, list) else [],
        advice=_string(row, "advice"),
    )


def _rows(value: object) -> List[Dict[str, Any]]:
    return [row for row in value[:ENTRIES] if isinstance(row, dict)] if isinstance(value, list) else []


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
    known = type(value) in (int, float) and abs(value) < 1e15  # type: ignore[arg-type]
    return float(value) if known else 0.0  # type: ignore[arg-type]


def _moment(seconds: float) -> Optional[float]:
    return round(seconds, 3) if math.isfinite(seconds) and 0.0 < seconds < LATEST else None


def _text_at(data: bytes, place: int, limit: int) -> str:
    length = int.from_bytes(data[place : place + 4], "little")
    return text(data[place + 4 : place + 4 + length]) if 0 < length <= limit else ""
