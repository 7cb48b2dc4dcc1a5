"""One dump of a rank, read: the thread that tells what it does, and the helper that it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from collectors.samples.stacks import Frame, StackDump
from hangtop.diagnosis.stacks.doing import Role
from hangtop.diagnosis.stacks.folding import folded
from hangtop.diagnosis.stacks.frames import function, is_in, place
from hangtop.diagnosis.stacks.reading import Reading, read
from hangtop.diagnosis.stacks.roles import main_thread
from hangtop.diagnosis.stacks.system import system
from hangtop.diagnosis.stacks.threads import thread_that_counts

NO_FILE = "<string>"
"""File of the frames of ``python -c``: of a helper, it is how it was started."""
CHILD = "process "
"""How what a call waits on begins where that is the end of one process."""
_SERVES = ("accept", "accept4")
"""Calls in which a server waits for whoever comes."""
_RUN, _STARTED_IN = "run", "multiprocessing/process.py"


class StackLook(NamedTuple):
    """One dump of a rank's own process, read."""

    dump: StackDump
    reading: Reading
    role: Role
    helper: StackDump | None
    helper_reading: Reading | None

    @property
    def user(self) -> tuple[Frame, ...]:
        """User frames that show where it is, innermost first: a data worker's when the rank waits for that."""
        if self.helper_reading is not None and self.helper_reading.user:
            return self.helper_reading.user
        return self.reading.user

    @property
    def frame(self) -> Frame | None:
        """The innermost of them."""
        return self.user[0] if self.user else None

    @property
    def place(self) -> str:
        """Folded frames joined; without the line of an innermost user frame that is itself running."""
        return _place(self.reading, self.helper_reading)

    @property
    def raw(self) -> tuple[tuple[str, str, int], ...]:
        """Frames as they were, to tell moving from frozen."""
        return _raw(self.reading, self.helper_reading)


@lru_cache(maxsize=4096)
def _place(reading: Reading, helper: Reading | None) -> str:
    lines = list(folded(reading))
    if reading.decided_by is None and lines and reading.user:
        running = place(reading.user[0])
        lines = [line.rpartition(":")[0] if line == running else line for line in lines]
    if helper is not None:
        lines.extend(place(frame) for frame in reversed(helper.user))
    return ";".join(lines)


@lru_cache(maxsize=4096)
def _raw(reading: Reading, helper: Reading | None) -> tuple[tuple[str, str, int], ...]:
    found = [(frame.name, frame.file, frame.line) for frame in reading.frames if not frame.native]
    if helper is not None:
        found.extend((frame.name, frame.file, frame.line) for frame in helper.frames)
    return tuple(found)


def look(dump: StackDump, helpers: Sequence[StackDump] = ()) -> StackLook | None:
    """Read one dump of a rank's own process, with those of its helpers of about the same moment; None without frames.

    Where main has handed the work to another thread, that one is judged (:func:`thread_that_counts`).
    """
    if not dump.threads:
        return None
    main = main_thread(dump)
    if main is None:
        return None
    reading, judged = thread_that_counts(dump, main, read(main.frames, system(dump)))
    helper, helper_reading = _helper(reading, dump, helpers)
    return StackLook(dump, reading, judged, helper, helper_reading)


def _helper(
    reading: Reading, waits: StackDump, helpers: Sequence[StackDump]
) -> tuple[StackDump | None, Reading | None]:
    """The helper that a rank waits for: one that is in user code, rather than one that waits for its orders.

    Where the kernel tells for which process it waits that one goes before all others: what it started may do the work.
    """
    if reading.waits != "helper":
        return None, None
    wanted = [dump for dump in helpers if f"{CHILD}{dump.pid}" == waits.waiting_on]
    others = [dump for dump in helpers if dump not in wanted and dump.syscall not in _SERVES]
    for dump in (*wanted, *others):
        main = main_thread(dump)
        if main is None:
            continue
        found = read(main.frames, system(dump))
        if any(frame.file != NO_FILE for frame in found.user) and not _awaits_orders(found):
            return dump, found
    return None, None


def _awaits_orders(reading: Reading) -> bool:
    """Whether a helper waits at its pipe or queue in the very function that it was started to run: for the rank."""
    if reading.waits != "helper" or len(reading.user) != 1:
        return False
    outside = reading.frames[reading.frames.index(reading.user[0]) + 1 :]
    return bool(outside) and function(outside[0].name) == _RUN and is_in(outside[0].file, _STARTED_IN)
