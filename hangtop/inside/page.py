"""The shared page of this process: written here with a few stores, read by the node side without our help.

:mod:`collectors.samples.page` has the layout. Code in every step takes no lock, calls only the clock, and keeps no
object; torch's hooks (:mod:`hangtop.inside.hooks`) pack directly. If two threads write at once, the last number
remains.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from operator import index
from types import TracebackType
from typing import Optional, Type

from collectors.samples import page as layout

put_pair = struct.Struct(layout.PAIR).pack_into
"""``put_pair(page.bytes, STEP or PHASE, number, now())``: write a number with its time."""
put_both = struct.Struct(layout.PAIR + layout.PAIR[1:]).pack_into
"""``put_both(page.bytes, STEP, number, at, phase, at)``: a step ends and a phase begins."""
now = time.time
STEP, PHASE = 8 * layout.STEP, 8 * layout.PHASE


class Page:
    """The page of one process. Raises :class:`OSError` if the kernel refuses the memory."""

    def __init__(self) -> None:
        file = os.memfd_create(layout.NAME, os.MFD_CLOEXEC)
        try:
            os.fchmod(file, 0o600)
            os.ftruncate(file, layout.SIZE)
            view = memoryview(mmap.mmap(file, layout.SIZE))
        finally:
            os.close(file)  # the map has its own descriptor, closed with its last view
        self.bytes = view
        self.words = view.cast("q")
        self.last_step = -1
        """Number of the last step; -1 before the first."""
        self.back_to = [PhaseContext(self, number) for number in range(len(layout.PHASE_NAMES))]
        """For each phase, the context that returns to it: made once, not in every step."""
        self.words[layout.VERSION_WORD] = layout.VERSION
        self.words[layout.SIZE_WORD] = layout.SIZE
        self.words[layout.PID] = os.getpid()
        self.words[layout.STEP] = -1
        # last: a reader that finds the magic finds all other fields
        view[:8] = layout.MAGIC

    def step(self, number: int) -> None:
        """Write the number of a finished step.

        Raises :class:`struct.error` for a number of more than 64 bits: the page is unchanged until the next step.
        """
        if type(number) is not int:  # do not keep a tensor
            number = index(number)
        put_pair(self.bytes, STEP, number, now())
        self.last_step = number

    def phase(self, number: int) -> "PhaseContext":
        """Write the number of the phase that begins; returns the context that goes back to the phase before."""
        before = self.words[layout.PHASE]
        put_pair(self.bytes, PHASE, number, now())
        return self.back_to[before]

    def pipe(self, path: str) -> None:
        """Write the beginning of the path of the recorder's pipe."""
        self._put(layout.PIPE, path.encode("utf-8", "replace")[: layout.PIPE_LIMIT])

    def answer(self, text: bytes) -> None:
        """Write the latest results, JSON of at most :data:`~collectors.samples.page.ANSWER_LIMIT` bytes."""
        words = self.words
        words[layout.ANSWER_SEQUENCE] += 1
        self._put(layout.ANSWER, text)
        words[layout.ANSWER_SEQUENCE] += 1

    def _put(self, place: int, text: bytes) -> None:
        self.bytes[place : place + 4] = len(text).to_bytes(4, "little")
        self.bytes[place + 4 : place + 4 + len(text)] = text

    def close(self) -> None:
        """Invalidate the page: readers ignore it from now on, and late writes do no harm."""
        self.bytes[:8] = bytes(8)
        self.back_to.clear()


class PhaseContext:
    """Result of ``phase()``: as a context, it returns to the phase before."""

    __slots__ = ("_before", "_page")

    def __init__(self, page: Optional[Page], before: int) -> None:
        self._page = page
        self._before = before

    def __enter__(self) -> None:
        """The phase has begun already."""

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        """Go back to the phase before."""
        if self._page is not None:
            self._page.phase(self._before)
