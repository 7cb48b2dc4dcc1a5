"""Source ``pages``: reads the pages that ranks share after they called ``hangtop.inside.start()``.

A page is found by its name among the open files of a rank, which the kernel shows to the rank's user and to root. It is
read like any file; no process is traced or stopped. A name proves nothing, so a page must be a regular file of the
rank's user and contain the rank's own pid: a forked process inherits its parent's page. The contents are untrusted.
:mod:`collectors.samples.page` defines the layout.
"""

from __future__ import annotations

import json
import os
import struct
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from collectors.node.files import link, list_folder, opened, regular, text
from collectors.node.processes.procfs import read_status
from collectors.node.source import Shared, Source
from collectors.samples import page as layout
from collectors.samples.logs import StepCount
from collectors.samples.ranks import InsideFinding, InsidePulse, InsideResult

FILES = 2048
"""Open files of a rank that are searched, lowest descriptors first."""
FIRST_PAUSE, LONGEST_PAUSE = 2.5, 40.0
"""Seconds between searches of ranks without a page; the pause doubles, and is reset when a new rank appears. A rank may
create its page late; most ranks never do."""
RESULTS = 16
"""Results read from one page at most."""
LATEST = 1e10
"""Seconds since the epoch; later times are invalid."""
_NAME = "/memfd:%s " % layout.NAME
_HEAD = 8 * 32
"""Bytes at the beginning of a page that hold all numbers."""


class PageFile(NamedTuple):
    """Path and expected owner of a process's page."""

    pid: int
    inner_pid: int
    """The pid in the process's own PID namespace, which the page contains."""
    path: str
    uid: int

    def read(self) -> bytes:
        """The page's bytes; empty if it is gone, or is not a regular file of the expected user."""
        try:
            file = opened(self.path, lambda found: regular(found) and found.st_uid == self.uid)
        except OSError:
            return b""
        try:
            return os.pread(file, layout.SIZE, 0)
        finally:
            os.close(file)

    def pulse(self) -> Tuple[Optional[InsidePulse], bytes]:
        """Pulse that two reads agree on (so no write was in progress), and the page's bytes; None without a page."""
        last = None
        for _ in range(3):
            data = self.read()
            found = read_pulse(data, self.pid, self.inner_pid)
            if found is None or found == last:
                break
            last = found
        return found, data


class PageSource(Source):
    """The pages of all ranks on this node."""

    name = "pages"

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._places: Dict[int, PageFile] = {}
        self._steps: Dict[int, Tuple[int, int]] = {}
        """By pid, the last step reported, and the number of steps since the first report."""
        self._searched: Set[int] = set()
        self._search_at, self._pause = 0.0, FIRST_PAUSE

    def read(self, _now: float) -> Iterator[NamedTuple]:
        """Step and phase of each rank, and the results of checks."""
        ranks = {rank.pid: rank for rank in self.shared.ranks}
        moment, without = time.monotonic(), ranks.keys() - self._places.keys()
        if without - self._searched or (without and moment >= self._search_at):
            self._pause = FIRST_PAUSE if without - self._searched else min(2 * self._pause, LONGEST_PAUSE)
            self._searched, self._search_at = set(without), moment + self._pause
            found = (find(self.proc, pid, ranks[pid].uid) for pid in without)
            self._places.update({place.pid: place for place in found if place is not None})
        for pid, place in list(self._places.items()):
            pulse, data = place.pulse() if pid in ranks else (None, b"")
            if pulse is None:
                del self._places[pid]
                self._steps.pop(pid, None)
                yield InsidePulse(pid, None, None, "", None)
                continue
            yield pulse
            if pulse.step is not None:
                yield self._step(pulse.step, pulse)
            yield from read_results(data, pid)

    def _step(self, step: int, pulse: InsidePulse) -> StepCount:
        """The step in the form of a log's step count."""
        last, grown = self._steps.get(pulse.pid, (step, 0))
        grown += max(0, step - last)
        self._steps[pulse.pid] = (step, grown)
        return StepCount("hangtop.inside, pid %d" % pulse.pid, pulse.pid, "step", float(step), pulse.step_at, grown)


def find(proc: str, pid: int, uid: Optional[int] = None) -> Optional[PageFile]:
    """The page of a process (of user ``uid``, if given); None without a page, or without the right to search for it."""
    folder, status = "%s/%d/fd" % (proc, pid), read_status(proc, pid)
    if status is None or uid not in (None, status.uid):
        return None
    for number in sorted(int(name) for name in list_folder(folder) if name.isdigit())[:FILES]:
        place = PageFile(pid, status.inner_pid, "%s/%d" % (folder, number), status.uid)
        if link(place.path).startswith(_NAME) and place.pulse()[0] is not None:
            return place
    return None


def recorder_pipe(pid: int, proc: str = "/proc") -> str:
    """Beginning of the path of the recorder's pipe that a process opened itself, from its page; empty for none."""
    place = find(proc, pid)
    return "" if place is None else _text_at(place.read(), layout.PIPE, layout.PIPE_LIMIT).partition("\n")[0]


# --- the bytes of a page ---------------------------------------------------------------------------------------------


def read_pulse(data: bytes, pid: int, inner_pid: int) -> Optional[InsidePulse]:
    """Step and phase; None if the bytes are no page, or the page has another version or belongs to another process."""
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


def read_results(data: bytes, pid: int) -> Iterator[InsideResult]:
    """Results of checks in a page; none while the page's results are being written. Malformed results are skipped.

    The types of the fields are checked where samples are decoded.
    """
    sequence = int.from_bytes(data[8 * layout.ANSWER_SEQUENCE :][:8], "little")
    try:
        rows = json.loads(_text_at(data, layout.ANSWER, layout.ANSWER_LIMIT) or "[]") if sequence % 2 == 0 else []
    except (ValueError, RecursionError):
        return
    for row in rows[:RESULTS] if isinstance(rows, list) else ():
        try:
            findings: List[InsideFinding] = [InsideFinding(**finding) for finding in row["findings"]]
            result = InsideResult(**{**row, "pid": pid, "findings": findings})
        except (TypeError, KeyError):
            continue
        if result.check in layout.CHECKS:
            yield result


def _moment(seconds: float) -> Optional[float]:
    return round(seconds, 3) if 0.0 < seconds < LATEST else None


def _text_at(data: bytes, place: int, limit: int) -> str:
    length = int.from_bytes(data[place : place + 4], "little")
    return text(data[place + 4 : place + 4 + length]) if 0 < length <= limit else ""
