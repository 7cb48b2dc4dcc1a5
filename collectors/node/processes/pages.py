"""Source ``pages``: what ranks that called ``hangtop.inside.start()`` tell, by the pages that they share.

A page is found by its name among the open files of a rank, which the kernel shows to the rank's user and to root. It is
read as any file is: nothing is traced, stopped or asked. A name proves nothing, so a page must lie where memfds lie,
belong to the rank's user and say that it is of this very process: what a rank forks has its parent's.
"""

from __future__ import annotations

import os
import time
from typing import Dict, Iterator, List, NamedTuple, Optional

from collectors.node.files import link, opened, read_or_none, regular
from collectors.node.processes import page_reading
from collectors.node.processes.procfs import parse_status, read_status
from collectors.node.shared import Shared
from collectors.node.source import Source
from collectors.samples import page as layout
from collectors.samples.inside import InsideGone, InsideResult
from collectors.samples.logs import StepCount
from collectors.samples.ranks import RankProcess

FILES = 2048
"""Open files of a rank that are looked through, those with the lowest numbers first."""
PAGES = 256
"""Pages that are held open; a node has no more ranks."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between two searches at a rank that has none; they double, as one may start late, and most never do."""
TRIES = 3
"""Reads of a page while its process is writing."""
_NAME = "/memfd:%s " % layout.NAME


class OpenPage:
    """One page, and what was told of it."""

    def __init__(self, file: int, pid: int, inner: int) -> None:
        self.file = file
        self.pid = pid
        self.inner = inner
        self.told = -1
        """Sequence of the answers that were told last."""
        self.results: List[InsideResult] = []
        self.facts = False
        self.step: Optional[int] = None
        self.grown = 0

    def read(self, size: int) -> bytes:
        """Its beginning; empty where it is none any more."""
        try:
            return os.pread(self.file, size, 0)
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
        """Step and phase of each, and the results of checks that are new."""
        ranks = {rank.pid: rank for rank in self.shared.ranks}
        for pid in [pid for pid in self._pages if pid not in ranks]:
            yield self._drop(pid, now)
        for pid in [pid for pid in self._missed if pid not in ranks]:
            del self._missed[pid]
        if self._device is None:
            return
        moment = time.monotonic()
        for pid, rank in ranks.items():
            page = self._pages.get(pid)
            if page is None:
                page = self._search(rank, moment)
            if page is not None:
                yield from self._tell(page, rank, now)

    def _search(self, rank: RankProcess, moment: float) -> Optional[OpenPage]:
        missed = self._missed.get(rank.pid)
        if (missed is not None and moment < missed.again) or len(self._pages) >= PAGES:
            return None
        assert self._device is not None
        page = find(self.proc, rank.pid, rank.uid, self._device)
        if page is None:
            pause = FIRST_PAUSE if missed is None else min(2 * missed.pause, LONGEST_PAUSE)
            self._missed[rank.pid] = Missed(moment + pause, pause)
            return None
        self._missed.pop(rank.pid, None)
        self._pages[rank.pid] = page
        return page

    def _tell(self, page: OpenPage, rank: RankProcess, now: float) -> Iterator[NamedTuple]:
        head = read_head(page)
        if head is None or head.pid != page.inner:
            yield self._drop(page.pid, now)
            return
        pulse = head.pulse(page.pid)
        yield pulse
        if pulse.step is not None:
            page.grown += max(0, pulse.step - page.step) if page.step is not None else 0
            page.step = pulse.step
            path = "hangtop.inside, pid %d" % page.pid
            number = None if rank.rank < 0 else rank.rank
            yield StepCount(path, page.pid, number, "step", float(pulse.step), pulse.step_at, page.grown, 0)
        whole = page.read(layout.SIZE) if not page.facts or self._answered(page) else b""
        if len(whole) == layout.SIZE and not page.facts:
            page.facts = True
            yield page_reading.facts_of(whole, page.pid)
        sequence = page_reading.answer_sequence(whole)
        if sequence > 0 and sequence % 2 == 0 and sequence != page.told:
            page.told = sequence
            page.results = page_reading.results_of(whole, page.pid)
        yield from page.results

    def _answered(self, page: OpenPage) -> bool:
        """Whether its answers are others than those that were told."""
        try:
            found = os.pread(page.file, 8, 8 * layout.ANSWER_SEQUENCE)
        except OSError:
            return False
        return int.from_bytes(found, "little") not in (page.told, 0)

    def _drop(self, pid: int, now: float) -> InsideGone:
        os.close(self._pages.pop(pid).file)
        return InsideGone(pid, now)


def read_head(page: OpenPage) -> Optional[page_reading.PageHead]:
    """Numbers of a page that belong together, as far as its process lets one see such; None where it is gone."""
    head = page_reading.head_of(page.read(page_reading.HEAD))
    for _ in range(TRIES):
        again = page_reading.head_of(page.read(page_reading.HEAD))
        if head is None or again is None or again.moving() == head.moving():
            return again
        head = again
    return head


def find(proc: str, pid: int, uid: int, device: int) -> Optional[OpenPage]:
    """The page of a process of this user, open; None where there is none, or it may not be looked for.

    ``device`` is where memfds lie (:func:`memfd_device`).
    """
    folder = "%s/%d/fd" % (proc, pid)
    try:
        numbers = sorted(int(name) for name in os.listdir(folder) if name.isdigit())
    except OSError:
        return None
    status = read_status(proc, pid)
    if status is None:
        return None
    for number in numbers[:FILES]:
        path = "%s/%d" % (folder, number)
        if not link(path).startswith(_NAME):
            continue
        page = _opened(path, pid, uid, status.inner_pid, device)
        if page is not None:
            return page
    return None


def _opened(path: str, pid: int, uid: int, inner: int, device: int) -> Optional[OpenPage]:
    def accept(found: os.stat_result) -> bool:
        return regular(found) and found.st_dev == device and found.st_uid == uid

    try:
        file = opened(path, accept)
    except OSError:
        return None
    page = OpenPage(file, pid, inner)
    head = page_reading.head_of(page.read(page_reading.HEAD))
    if head is not None and head.pid == inner:
        return page
    os.close(file)
    return None


def told_pipe(pid: int, proc: str = "/proc") -> str:
    """Beginning of the path of the recorder's pipe that a process opened itself, as its page says; empty for none."""
    device, owner = memfd_device(), read_or_none("%s/%d/status" % (proc, pid))
    status = parse_status(owner or b"", pid)
    page = None if device is None or status is None else find(proc, pid, status.uid, device)
    if page is None:
        return ""
    whole = page.read(layout.SIZE)
    os.close(page.file)
    return page_reading.facts_of(whole, pid).pipe


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
