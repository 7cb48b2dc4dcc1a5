"""Source ``pages``: what ranks that called ``hangtop.inside.start()`` tell, by the pages that they share.

A page is found by its name among the open files of a rank, which the kernel shows to the rank's user and to root. It is
read as any file is: nothing is traced, stopped or asked. A name proves nothing, so a page must lie where memfds lie,
belong to the rank's user and say that it is of this very process: what a rank forks has its parent's. Whoever made its
bytes may have written anything: all of it is checked. :mod:`collectors.samples.page` says what lies where.
"""

from __future__ import annotations

import json
import os
import struct
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Type, TypeVar

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
LATEST = 1e10
"""Seconds since the epoch beyond which a time is none."""
_NAME = "/memfd:%s " % layout.NAME
_HEAD = 8 * 32
"""Bytes at the beginning that hold all numbers."""

T = TypeVar("T")


class OpenPage:
    """One page that is open, and what was told of it."""

    def __init__(self, file: int, pid: int, inner_pid: int) -> None:
        self._file = file
        self._pid = pid
        self._inner_pid = inner_pid
        self._step: Optional[int] = None
        self._grown = 0

    def pulse(self) -> Optional[InsidePulse]:
        """Step and phase as two reads agree on, so that no write was under way; None where the page is gone."""
        last = None
        for _ in range(3):
            found = read_pulse(self._read(_HEAD), self._pid, self._inner_pid)
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
        number, path = None if rank < 0 else rank, "hangtop.inside, pid %d" % self._pid
        return StepCount(path, self._pid, number, "step", float(pulse.step), pulse.step_at, self._grown, 0)

    def results(self) -> List[InsideResult]:
        """The latest results of checks; none while one is being written."""
        place = 8 * layout.ANSWER_SEQUENCE
        whole = self._read(layout.SIZE) if self._read(8, place) != b"\0" * 8 else b""
        sequence = int.from_bytes(whole[place : place + 8], "little")
        return read_results(whole, self._pid) if whole and sequence % 2 == 0 else []

    def pipe(self) -> str:
        """Beginning of the path of the recorder's pipe that its process opened; empty for none."""
        return _text_at(self._read(layout.SIZE), layout.SAID, layout.SAID_LIMIT).partition("\n")[0][:TEXT]

    def close(self) -> None:
        """Let go of it."""
        os.close(self._file)

    def _read(self, size: int, place: int = 0) -> bytes:
        try:
            return os.pread(self._file, size, place)
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
        self._missed = {pid: missed for pid, missed in self._missed.items() if pid in ranks}
        for rank in ranks.values():
            self._search(rank, time.monotonic())
        for pid, page in list(self._pages.items()):
            pulse = page.pulse() if pid in ranks else None
            if pulse is None:
                self._pages.pop(pid).close()
                yield InsideGone(pid, now)
                continue
            yield pulse
            steps = page.steps(pulse, ranks[pid].rank)
            if steps is not None:
                yield steps
            yield from page.results()

    def _search(self, rank: RankProcess, moment: float) -> None:
        missed = self._missed.get(rank.pid, Missed(moment, FIRST_PAUSE / 2))
        if rank.pid in self._pages or moment < missed.again or len(self._pages) >= PAGES or self._device is None:
            return
        page = find(self.proc, rank.pid, rank.uid, self._device)
        if page is not None:
            self._pages[rank.pid] = page
        pause = min(2 * missed.pause, LONGEST_PAUSE)
        self._missed[rank.pid] = Missed(moment + pause, pause)


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


# --- the bytes of a page ---------------------------------------------------------------------------------------------


def read_pulse(data: bytes, pid: int, inner_pid: int) -> Optional[InsidePulse]:
    """Step and phase; None for bytes that are no page, of another version, or of another process's page."""
    if len(data) < _HEAD or data[:8] != layout.MAGIC:
        return None
    words, floats = struct.unpack_from("=32q", data), struct.unpack_from("=32d", data)
    expected = {layout.VERSION_WORD: layout.VERSION, layout.SIZE_WORD: layout.SIZE, layout.PID: inner_pid}
    if any(words[place] != word for place, word in expected.items()):
        return None
    step, phase = words[layout.STEP], words[layout.PHASE]
    step_at, phase_at = _moment(floats[layout.STEP_AT]), _moment(floats[layout.PHASE_AT])
    stepped = step >= 0 and step_at is not None
    named = 0 < phase < len(layout.PHASE_NAMES) and phase_at is not None
    name = layout.PHASE_NAMES[phase] if named else ""
    return InsidePulse(pid, step if stepped else None, step_at if stepped else None, name, phase_at if named else None)


def read_results(data: bytes, pid: int) -> List[InsideResult]:
    """Results of checks, out of a whole page; what is none is left out."""
    try:
        rows = json.loads(_text_at(data, layout.ANSWER, layout.ANSWER_LIMIT) or "[]")
    except (ValueError, RecursionError):
        return []
    results: List[InsideResult] = []
    for row in _entries(rows, dict):
        check, at, seconds = _string(row, "check"), _seconds(row, "at"), _seconds(row, "seconds")
        findings = [_finding(one) for one in _entries(row.get("findings"), dict)]
        if check in layout.CHECKS:
            ok, summary = row.get("ok") is True, _string(row, "summary")
            results.append(InsideResult(pid, check, at, _ranks(row), ok, seconds, summary, findings))
    return results


def _finding(row: Dict[str, Any]) -> InsideFinding:
    severity = _string(row, "severity")
    return InsideFinding(
        kind=_string(row, "kind"),
        severity=severity if severity in ("critical", "warning") else "info",
        summary=_string(row, "summary"),
        ranks=_ranks(row),
        evidence=[line[:TEXT] for line in _entries(row.get("evidence"), str)],
        advice=_string(row, "advice"),
    )


def _entries(value: object, kind: Type[T], most: int = ENTRIES) -> List[T]:
    """The first entries of a list that are of this very kind."""
    return [entry for entry in value[:most] if type(entry) is kind] if isinstance(value, list) else []


def _ranks(row: Dict[str, Any]) -> List[int]:
    return [rank for rank in _entries(row.get("ranks"), int, RANKS) if 0 <= rank < 1 << 24]


def _string(row: Dict[str, Any], name: str) -> str:
    return "".join(_entries([row.get(name)], str))[:TEXT]


def _seconds(row: Dict[str, Any], name: str) -> float:
    value: Any = row.get(name)
    return float(value) if type(value) in (int, float) and 0.0 <= value < LATEST else 0.0


def _moment(seconds: float) -> Optional[float]:
    return round(seconds, 3) if 0.0 < seconds < LATEST else None


def _text_at(data: bytes, place: int, limit: int) -> str:
    length = int.from_bytes(data[place : place + 4], "little")
    return text(data[place + 4 : place + 4 + length]) if 0 < length <= limit else ""
