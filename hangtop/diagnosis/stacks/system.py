"""What the kernel says of a main thread, in the words of the diagnosis."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from collectors.samples.stacks import RUNS, StackDump
from hangtop.diagnosis.stacks.doing import Waits
from hangtop.diagnosis.stacks.generic import NETWORK
from hangtop.diagnosis.tables.wchan import call_at

_SLEEP = frozenset(("nanosleep", "clock_nanosleep"))
_STORAGE = frozenset(
    "read write open openat openat2 close stat fstat newfstatat statx lseek pread64 pwrite64 readv writev preadv "
    "pwritev fsync fdatasync sync syncfs truncate ftruncate fallocate getdents64 mkdir mkdirat unlink unlinkat rename "
    "renameat renameat2 sendfile copy_file_range io_getevents io_uring_enter connect accept accept4 "
    "sendto recvfrom sendmsg recvmsg poll ppoll select pselect6 epoll_wait epoll_pwait".split()
)
"""Calls that wait for a file, a pipe or a socket."""

OPENS = frozenset(("open", "openat", "openat2"))
"""Calls that wait until a file is open."""
FILE_LOCKS = frozenset(("flock", "fcntl"))
"""Calls that wait for a lock on a file: of what fcntl(2) does nothing else blocks."""
CHILD = frozenset(("wait4", "waitid"))
"""Calls that wait for the end of a process."""
_NETWORK = frozenset(
    "connect accept accept4 sendto recvfrom sendmsg recvmsg poll ppoll select pselect6 epoll_wait epoll_pwait".split()
)
_WRITES = frozenset("write pwrite64 writev pwritev fsync fdatasync sync syncfs fallocate truncate ftruncate".split())
_READS = frozenset("read pread64 readv preadv getdents64".split())
_NO_FILES = ("/dev/", "/proc/", "/sys/", "/memfd:", "/anon_hugepage")
"""Beginnings of paths behind which there is a device, the kernel or memory."""
_LOGS = (".log", ".out", ".err", ".txt", ".jsonl", ".csv")
"""Ends of names of files that a program writes as it goes: no checkpoint is called so."""

Direction = Literal["", "reads", "writes"]

_LEFT = re.compile(r"its clock for ([0-9]{1,10}) s more")
"""As :mod:`collectors.node.processes.sleeps` tells it."""


def sleep_left(waiting_on: str) -> float | None:
    """Seconds that are left of a sleep, by what its call waits on; None where that is no clock."""
    found = _LEFT.fullmatch(waiting_on)
    return None if found is None else float(found[1])


@dataclass(frozen=True, slots=True)
class System:
    """A thread in the kernel's eyes: whom its system call waits for, and how that reads."""

    waits: Waits = "unknown"
    waiting_on: str = ""
    label: str = "is in user code"
    """For people; without the file, which differs from rank to rank."""
    direction: Direction = ""
    """Which way a file that it waits for goes: data come in, or something is saved. Empty for anything else."""


def system(dump: StackDump) -> System:
    """What the kernel said of the main thread of a dump."""
    call = dump.syscall or (call_at(dump.wchan) if dump.state == "S" else "")
    return _system(dump.state, call, dump.waiting_on.removesuffix(RUNS))


@lru_cache(maxsize=4096)
def _system(state: str, call: str, target: str) -> System:
    if state in ("T", "t"):
        return System("unknown", target, "is stopped")
    if call in ("none", "running") or (not call and state == "R"):
        return System("nothing", "", "computes")
    if call in _SLEEP:
        return System("time", "", "sleeps")
    if call in CHILD:
        return System("helper", "", "waits for a child process")
    if call == "ioctl" and target.startswith("/dev/nvidia"):
        return System("device", target, "waits for its GPU")
    if call in FILE_LOCKS:
        return System("lock", target, "waits for a lock on a file")
    if call in _STORAGE:
        return System("storage", target, _file_label(call, target), _direction(call, target))
    if call == "futex":  # a lock, a queue, an operation begun earlier: C code that Python called
        return System("unknown", "", "waits in C code")
    return System("unknown", target)


def _direction(call: str, target: str) -> Direction:
    """Which way a file goes, by the call and what the file was opened for."""
    path, _, purpose = target.partition(", to ")
    if not path.startswith("/") or path.startswith(_NO_FILES):
        return ""  # a pipe or a socket has a program at its other end: this says nothing about files
    if call in _READS or (call in OPENS and purpose == "read"):
        return "reads"
    writes = call in _WRITES or (call in OPENS and purpose == "write")
    return "writes" if writes and not path.endswith(_LOGS) and "tfevents" not in path else ""


def _file_label(call: str, target: str) -> str:
    if call in _NETWORK:
        return NETWORK
    if call in OPENS and _direction(call, target):
        return f"waits to open a file that it {_direction(call, target)}"
    return "writes" if call in _WRITES else "reads" if "read" in call else f"waits in {call}"
