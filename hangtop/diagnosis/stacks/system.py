"""What the kernel says of a main thread, in the words of the diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.stacks.doing import Waits

_SLEEP = frozenset(("nanosleep", "clock_nanosleep"))
_STORAGE = frozenset(
    "read write open openat openat2 close stat fstat newfstatat statx lseek pread64 pwrite64 readv writev preadv "
    "pwritev fsync fdatasync sync syncfs truncate ftruncate fallocate getdents64 mkdir mkdirat unlink unlinkat rename "
    "renameat renameat2 sendfile copy_file_range io_getevents io_uring_enter connect accept accept4 "
    "sendto recvfrom sendmsg recvmsg poll ppoll select pselect6 epoll_wait epoll_pwait".split()
)
"""Calls that wait for a file, a pipe or a socket."""

FILE_LOCKS = frozenset(("flock", "fcntl"))
"""Calls that wait for a lock on a file: of what fcntl(2) does nothing else blocks."""
_CHILD = frozenset(("wait4", "waitid"))
_NETWORK = frozenset(
    "connect accept accept4 sendto recvfrom sendmsg recvmsg poll ppoll select pselect6 epoll_wait epoll_pwait".split()
)
_WRITES = frozenset("write pwrite64 writev pwritev fsync fdatasync sync syncfs fallocate".split())


@dataclass(frozen=True, slots=True)
class System:
    """A thread in the kernel's eyes: whom its system call waits for, and how that reads."""

    waits: Waits = "unknown"
    waiting_on: str = ""
    label: str = "is in user code"
    """For people; without the file, which differs from rank to rank."""


def system(dump: StackDump) -> System:
    """What the kernel said of the main thread of a dump."""
    return _system(dump.state, dump.syscall, dump.waiting_on)


@lru_cache(maxsize=4096)
def _system(state: str, call: str, target: str) -> System:
    if state in ("T", "t"):
        return System("unknown", target, "is stopped")
    if call in ("none", "running") or (not call and state == "R"):
        return System("nothing", "", "computes")
    if call in _SLEEP:
        return System("time", "", "sleeps")
    if call in _CHILD:
        return System("helper", "", "waits for a child process")
    if call == "ioctl" and target.startswith("/dev/nvidia"):
        return System("device", target, "waits for its GPU")
    if call in FILE_LOCKS:
        return System("lock", target, "waits for a lock on a file")
    if call in _STORAGE:
        return System("storage", target, _file_label(call))
    if call == "futex":  # a lock, a queue, an operation begun earlier: C code that Python called
        return System("unknown", "", "waits in C code")
    return System("unknown", target)


def _file_label(call: str) -> str:
    if call in _NETWORK:
        return "waits for the network"
    return "writes" if call in _WRITES else "reads" if "read" in call else f"waits in {call}"
