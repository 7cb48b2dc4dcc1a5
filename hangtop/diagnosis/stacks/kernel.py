"""What a main thread does according to the kernel: its state, its system call, and what the call waits on."""

from __future__ import annotations

from functools import lru_cache

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.stacks.states import Meaning
from hangtop.diagnosis.tables.wchan import call_at

_CALLS: dict[Meaning, str] = {
    Meaning.COMPUTES: "none running",
    Meaning.IN_C: "futex",  # a lock, a queue, an operation begun earlier: C code that Python called
    Meaning.SLEEPS: "nanosleep clock_nanosleep",
    Meaning.CHILD: "wait4 waitid",
    Meaning.FILE_LOCK: "flock fcntl",
    Meaning.NETWORK: "connect accept accept4 sendto recvfrom sendmsg recvmsg poll ppoll select pselect6 epoll_wait "
    "epoll_pwait",
    Meaning.READS: "read pread64 readv preadv getdents64",
    Meaning.WRITES: "write pwrite64 writev pwritev fsync fdatasync sync syncfs fallocate truncate ftruncate",
    Meaning.OPENS: "open openat openat2",
    Meaning.CALLS: "close stat fstat newfstatat statx lseek mkdir mkdirat unlink unlinkat rename renameat renameat2 "
    "sendfile copy_file_range io_getevents io_uring_enter",
}
_MEANINGS = {call: meaning for meaning, calls in _CALLS.items() for call in calls.split()}
FILE_LOCKS = frozenset(_CALLS[Meaning.FILE_LOCK].split())
"""Calls that wait for a lock on a file: no other operation of fcntl(2) blocks."""
TO_READ = ", to read"
"""Suffix of the path in ``waiting_on`` for a file that is being opened to read."""
_NO_FILES = ("/dev/", "/proc/", "/sys/", "/memfd:", "/anon_hugepage")
"""Prefixes of paths of devices, of the kernel's files and of memory."""


def kernel_view(dump: StackDump) -> Meaning | None:
    """What the main thread of a dump does according to the kernel; None without a state, as in dumps from files."""
    call = dump.syscall or (call_at(dump.wchan) if dump.state == "S" else "")
    return _view(dump.state, call, dump.waiting_on) if dump.state else None


@lru_cache(maxsize=4096)
def _view(state: str, call: str, waiting_on: str) -> Meaning:
    if state in ("T", "t"):  # t: a debugger or a stack dump has paused the process
        return Meaning.STOPPED
    if call == "ioctl" and waiting_on.startswith("/dev/nvidia"):
        return Meaning.GPU_CALL
    meaning = _MEANINGS.get(call, Meaning.COMPUTES if not call and state == "R" else Meaning.CODE)
    # not a pipe or a socket, which has a program at its other end
    of_file = waiting_on.startswith("/") and not waiting_on.startswith(_NO_FILES)
    reads = meaning is Meaning.READS or (meaning is Meaning.OPENS and waiting_on.endswith(TO_READ))
    return Meaning.READS_FILE if reads and of_file else meaning
