"""The shared page of this process: written here with a few stores, read by the node side without a word to us.

:mod:`collectors.samples.page` says what lies where. What runs in every step takes no lock and no system call but the
clock's, and keeps nothing of what it makes; torch's hooks (:mod:`hangtop.inside.hooks`) call the packing itself. Of two
threads that tell at once the later one's number stands.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
from operator import index
from types import TracebackType
from typing import List, NamedTuple, Optional, Type

from collectors.samples import page as layout

put_pair = struct.Struct(layout.PAIR).pack_into
"""``put_pair(page.bytes, STEP or PHASE, number, now())``: one number that moves."""
put_both = struct.Struct(layout.PAIR + layout.PAIR[1:]).pack_into
"""``put_both(page.bytes, STEP, number, at, phase, at)``: a step is done, and a phase begins with it."""
now = time.time
STEP, PHASE = 8 * layout.STEP, 8 * layout.PHASE
QUESTION = layout.QUESTION


class PageQuestion(NamedTuple):
    """A check that somebody at the screen asked for."""

    number: int
    check: str
    at_step: int
    deadline: float
    """Seconds."""
    group: int
    """:func:`~collectors.samples.page.group_number` of the ranks that make it; 0 for all."""


class OwnRank(NamedTuple):
    """Who this process is in its job; -1 for what it does not know."""

    rank: int = -1
    world_size: int = -1
    local_rank: int = -1


class Page:
    """The page of one process. Raises :class:`OSError` where the kernel gives none."""

    def __init__(self, own: OwnRank) -> None:
        file = os.memfd_create(layout.NAME, os.MFD_CLOEXEC)
        try:
            os.fchmod(file, 0o600)
            os.ftruncate(file, layout.SIZE)
            view = memoryview(mmap.mmap(file, layout.SIZE))
        finally:
            os.close(file)  # the map has one of its own, and closes it when nobody writes any more
        self.bytes = view
        self.words = view.cast("q")
        self._floats = view.cast("d")
        self.last_step = -1
        """Number of the last step; -1 before the first."""
        self.seldom_from = 0
        """The step from which on there may be more to do than to write its number."""
        self.back_to = [PhaseContext(self, number) for number in range(len(layout.PHASE_NAMES))]
        """For each phase what goes back to it: made once, not in every step."""
        self._name(own)
        self.words[layout.STEP] = -1
        # last: whoever finds the magic finds the rest
        view[:8] = layout.MAGIC

    def _name(self, own: OwnRank) -> None:
        words = self.words
        words[layout.VERSION_WORD] = layout.VERSION
        words[layout.SIZE_WORD] = layout.SIZE
        words[layout.PID] = os.getpid()
        self._floats[layout.STARTED] = time.time()
        self.say_rank(own)

    def say_rank(self, own: OwnRank) -> None:
        """Say who this process is, once it is known."""
        words = self.words
        words[layout.RANK], words[layout.WORLD_SIZE], words[layout.LOCAL_RANK] = own

    # --- what moves -----------------------------------------------------------------------------------------------

    def step(self, number: int) -> bool:
        """Write the number of a step that is done; whether there is more to do: see :attr:`seldom_from`.

        After a number of more than 64 bits none is told until the next one: raises :class:`struct.error`.
        """
        if type(number) is not int:  # a tensor is nothing to keep
            number = index(number)
        put_pair(self.bytes, STEP, number, now())
        self.last_step = number
        return number >= self.seldom_from or self.words[QUESTION] != 0

    def phase(self, number: int) -> "PhaseContext":
        """Write the number of the phase that begins; gives what goes back to the one before."""
        before = self.words[layout.PHASE]
        put_pair(self.bytes, PHASE, number, now())
        return self.back_to[before]

    @property
    def phase_now(self) -> int:
        """Number of the phase that began last."""
        return self.words[layout.PHASE]

    # --- what is asked, said and answered: seldom ---------------------------------------------------------------

    def question(self) -> Optional[PageQuestion]:
        """The question that has not been taken yet; None for none, or for one that is none."""
        words = self.words
        number, check = words[layout.QUESTION], words[layout.CHECK]
        if number == 0:
            return None
        if number < 0 or not 0 < check < len(layout.CHECKS):
            self.take(number)
            return None
        deadline = self._floats[layout.DEADLINE]
        seconds = deadline if 0.0 < deadline < 3600.0 else 60.0
        return PageQuestion(number, layout.CHECKS[check], words[layout.AT_STEP], seconds, words[layout.GROUP])

    def take(self, number: int) -> None:
        """Say that a question was seen, whatever comes of it."""
        self.words[layout.SEEN] = number
        self.words[layout.QUESTION] = 0

    def opened(self, did: List[str], pipe: str, signal: int) -> None:
        """Say what start() opened."""
        self.words[layout.SIGNAL] = signal
        text = "\n".join([pipe, *did]).encode("utf-8", "replace")
        self._put(layout.SAID, text[: layout.SAID_LIMIT])

    def tell_groups(self, text: str) -> None:
        """Say which process groups this one is in, a line each."""
        self._put(layout.TOLD_GROUPS, text.encode("utf-8", "replace")[: layout.TOLD_GROUPS_LIMIT])

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
        """Take it away: no watcher takes it for a page from now on, and what still writes to it harms nobody."""
        self.bytes[:8] = bytes(8)
        self.back_to.clear()


class PhaseContext:
    """What ``phase()`` gives: as a context it puts the phase before back."""

    __slots__ = ("_before", "_page")

    def __init__(self, page: Optional[Page], before: int) -> None:
        self._page = page
        self._before = before

    def __enter__(self) -> None:
        """Begun already."""

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        """Go back to the phase before."""
        if self._page is not None:
            self._page.phase(self._before)


def stacks_file() -> int:
    """A file in memory for faulthandler to write to: what comes is put at its end, whoever emptied it meanwhile."""
    file = os.memfd_create(layout.STACKS, os.MFD_CLOEXEC)
    os.fchmod(file, 0o600)
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
    return file
