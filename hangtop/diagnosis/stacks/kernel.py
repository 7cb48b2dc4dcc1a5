"""What the kernel says of a main thread: its system call, what that waits on; and looks that say nothing."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from collectors.samples.stacks import RUNS, StackDump
from hangtop.diagnosis.stacks.states import Meaning, TargetKind, Waits, target_of
from hangtop.diagnosis.tables.wchan import call_at

TRACED = "t"
"""State of a process that a debugger holds, or a look."""
FILE_LOCKS = frozenset(("flock", "fcntl"))
"""Calls that wait for a lock on a file: of what fcntl(2) does nothing else blocks."""
OPENS = frozenset(("open", "openat", "openat2"))
"""Calls that wait until a file is open."""
_CHILD = frozenset(("wait4", "waitid"))
_SLEEP = frozenset(("nanosleep", "clock_nanosleep"))
_NETWORK = frozenset(
    "connect accept accept4 sendto recvfrom sendmsg recvmsg poll ppoll select pselect6 epoll_wait epoll_pwait".split()
)
_READS = frozenset("read pread64 readv preadv getdents64".split())
_WRITES = frozenset("write pwrite64 writev pwritev fsync fdatasync sync syncfs fallocate truncate ftruncate".split())
_OTHERS_ON_FILES = frozenset(
    "close stat fstat newfstatat statx lseek mkdir mkdirat unlink unlinkat rename renameat renameat2 sendfile "
    "copy_file_range io_getevents io_uring_enter".split()
)
_NO_FILES = ("/dev/", "/proc/", "/sys/", "/memfd:", "/anon_hugepage")
"""Beginnings of paths behind which there is a device, the kernel or memory."""


class KernelView(NamedTuple):
    """A thread in the kernel's eyes."""

    waits: Waits = "unknown"
    meaning: Meaning = Meaning.CODE
    waiting_on: str = ""
    """What the call waits on, where it is one on a file or a connection."""
    known: bool = False
    """The kernel was asked: of a stack out of a file it was not."""


def kernel_view(dump: StackDump) -> KernelView:
    """What the kernel said of the main thread of a dump."""
    call = dump.syscall or (call_at(dump.wchan) if dump.state == "S" else "")
    return _view(dump.state, call, dump.waiting_on)


@lru_cache(maxsize=4096)
def _view(state: str, call: str, waiting_on: str) -> KernelView:
    meaning, waits = _meaning(state, call, waiting_on)
    told = waiting_on.removesuffix(RUNS) if waits == "storage" else ""
    return KernelView(waits, meaning, told, known=bool(state))


def _meaning(state: str, call: str, waiting_on: str) -> tuple[Meaning, Waits]:
    if state in ("T", "t"):
        return Meaning.STOPPED, "unknown"
    if call in ("none", "running") or (not call and state == "R"):
        return Meaning.COMPUTES, "nothing"
    if call == "ioctl" and waiting_on.startswith("/dev/nvidia"):
        return Meaning.GPU_CALL, "device"
    if call == "futex":  # a lock, a queue, an operation begun earlier: C code that Python called
        return Meaning.IN_C, "unknown"
    calls = ((_SLEEP, Meaning.SLEEPS), (_CHILD, Meaning.CHILD), (FILE_LOCKS, Meaning.FILE_LOCK),
             (_NETWORK, Meaning.NETWORK), (_WRITES, Meaning.WRITES), (_OTHERS_ON_FILES, Meaning.CALLS))  # fmt: skip
    for names, meaning in calls:
        if call in names:
            return meaning, meaning.waits
    if call in _READS or call in OPENS:
        reads = call in _READS or target_of(waiting_on).purpose == "read"
        if reads and _is_file(waiting_on):
            return Meaning.READS_FILE, "storage"
        return (Meaning.READS if call in _READS else Meaning.OPENS), "storage"
    return Meaning.CODE, "unknown"


def _is_file(waiting_on: str) -> bool:
    """Whether a call waits on a file: a pipe or a socket has a program at its other end."""
    return target_of(waiting_on).kind is TargetKind.FILE and not waiting_on.startswith(_NO_FILES)


def not_in_time(dump: StackDump) -> bool:
    """A look that took too long at a process which runs: a full node gave the look no CPU, or that one too much."""
    return dump.error.startswith("timeout") and dump.state == "R"


def telling(dumps: list[StackDump], state: str) -> list[StackDump]:
    """Leave out looks that say nothing, where others do. The kernel last showed the process in ``state``.

    A look at a moment when another look held the process shows no call, and the holder instead of what it waits on.
    """
    whole = [dump for dump in dumps if not dump.error.startswith("torn") and not not_in_time(dump)]
    dumps = whole if any(dump.threads for dump in whole) else dumps
    free = [dump for dump in dumps if dump.state != TRACED]
    return free if state != TRACED and any(dump.threads for dump in free) else dumps
