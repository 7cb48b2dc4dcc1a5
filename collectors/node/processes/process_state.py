"""State of a process as the kernel shows it, without its Python stack.

``syscall``, ``waiting_on`` and ``kernel`` need the right to trace the process; state, wait channel and CPU time do not.
"""

from __future__ import annotations

import os
import re
import struct
import time
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from collectors.node import files
from collectors.node.processes.procfs import colon_field, read_stat, read_status, threads
from collectors.node.processes.sockets import ALL, ESTABLISHED, LISTEN, TIME_WAIT, TcpSocket, socket_owner, tcp_sockets
from collectors.samples.stacks import BESIDE, RUNS, ThreadWait

THREADS = 256
"""Threads of a process that are read at most."""

# Numbers of the system calls in which a rank may wait: (name, x86-64, arm64), from the kernel's
# arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h. -1: the architecture has no such call.
_CALLS: Tuple[Tuple[str, int, int], ...] = (
    ("read", 0, 63), ("write", 1, 64), ("open", 2, -1), ("openat", 257, 56), ("openat2", 437, 437), ("close", 3, 57),
    ("stat", 4, -1), ("fstat", 5, 80), ("newfstatat", 262, 79), ("statx", 332, 291), ("lseek", 8, 62),
    ("poll", 7, -1), ("ppoll", 271, 73), ("select", 23, -1), ("pselect6", 270, 72),
    ("epoll_wait", 232, -1), ("epoll_pwait", 281, 22), ("mmap", 9, 222), ("munmap", 11, 215), ("madvise", 28, 233),
    ("ioctl", 16, 29), ("pread64", 17, 67), ("pwrite64", 18, 68), ("readv", 19, 65), ("writev", 20, 66),
    ("preadv", 295, 69), ("pwritev", 296, 70), ("sched_yield", 24, 124), ("pause", 34, -1),
    ("nanosleep", 35, 101), ("clock_nanosleep", 230, 115), ("sendfile", 40, 71), ("copy_file_range", 326, 285),
    ("connect", 42, 203), ("accept", 43, 202), ("accept4", 288, 242), ("sendto", 44, 206), ("recvfrom", 45, 207),
    ("sendmsg", 46, 211), ("recvmsg", 47, 212), ("wait4", 61, 260), ("waitid", 247, 95), ("futex", 202, 98),
    ("flock", 73, 32), ("fcntl", 72, 25), ("fsync", 74, 82), ("fdatasync", 75, 83), ("sync", 162, 81),
    ("syncfs", 306, 267), ("truncate", 76, 45), ("ftruncate", 77, 46), ("fallocate", 285, 47),
    ("getdents64", 217, 61), ("mkdir", 83, -1), ("mkdirat", 258, 34), ("unlink", 87, -1), ("unlinkat", 263, 35),
    ("rename", 82, -1), ("renameat", 264, 38), ("renameat2", 316, 276), ("rt_sigtimedwait", 128, 137),
    ("io_getevents", 208, 4), ("io_uring_enter", 426, 426), ("exit_group", 231, 94), ("kill", 62, 129),
    ("restart_syscall", 219, 128),
)  # fmt: skip

_RESTARTED = "restart_syscall"
"""A wait that the kernel resumed after a stop (by a debugger or a stack dump)."""
_WAITS_ON = (("poll", "poll"), ("nanosleep", "clock_nanosleep"), ("futex", "futex"))
"""Part of the wait channel's name, and the system call that was resumed."""

_ON_A_FILE = frozenset(
    "read write close fstat ioctl pread64 pwrite64 readv writev preadv pwritev connect accept accept4 sendto recvfrom "
    "sendmsg recvmsg flock fcntl fsync fdatasync syncfs ftruncate fallocate getdents64 lseek".split()
)
"""Calls whose first argument is a file descriptor."""
_ON_A_CHILD = {"wait4": 0, "waitid": 1}
"""Calls that wait for one child or any child, and the index of the argument with the pid."""
_ONE_PROCESS = 1  # P_PID of waitid(2)
_LOCK = re.compile(r"^(\d+): +(->)? *\S+ +\S+ +\S+ +(-?\d+) ", re.MULTILINE)
_TIMESPEC, _POLLED = struct.Struct("=qq"), struct.Struct("=ihh")
_LONGEST_S = 10**9
"""Seconds; a longer sleep is reported as this."""


class ProcessState(NamedTuple):
    """One look at /proc/PID. Fields as in :class:`collectors.samples.stacks.StackDump`."""

    state: str
    wchan: str
    syscall: str
    waiting_on: str
    cpu: float


def of(pid: int, proc: str = "/proc") -> Optional[ProcessState]:
    """Read the state of a process; None when it is gone."""
    folder = "%s/%d" % (proc, pid)
    stat = read_stat(proc, pid)
    if stat is None:
        return None
    wchan, cpu = files.read_text(folder + "/wchan"), stat.cpu_user + stat.cpu_system
    if stat.state == "t":
        return ProcessState("t", wchan, "", tracer(pid, proc), cpu)
    syscall, waiting_on = _syscall(folder, pid, proc)
    if syscall == _RESTARTED:
        syscall = next((name for part, name in _WAITS_ON if part in wchan), syscall)
    if syscall in ("flock", "fcntl"):
        keeper = lock_holder(pid, proc)
        waiting_on += ", locked by %s" % keeper if keeper else ""
    return ProcessState(stat.state, "" if wchan == "0" else wchan, syscall, waiting_on, cpu)


def beside_main(pid: int, proc: str = "/proc") -> List[ThreadWait]:
    """Threads other than main that run, or sleep elsewhere than at a futex: main may be waiting for one of them."""
    found: List[ThreadWait] = []
    for folder, stat in threads(proc, pid, THREADS):
        if folder.endswith("/%d" % pid) or files.read_text(folder + "/wchan").startswith("futex"):
            continue  # the wait channel first: most threads sleep at a futex, and the system call costs more to read
        syscall, waiting_on = ("none", "") if stat.state == "R" else _syscall(folder, pid, proc)
        if syscall not in ("", "futex"):
            found.append(ThreadWait(stat.comm, syscall, waiting_on))
        if len(found) == BESIDE:
            break
    return found


def kernel_stack(pid: int, proc: str = "/proc") -> List[str]:
    """Kernel stack of the main thread, innermost function first; empty without the right to read it."""
    lines = files.read_text("%s/%d/stack" % (proc, pid)).splitlines()
    return [line.partition("] ")[2].partition("+")[0] for line in lines if "] " in line]


def tracer(pid: int, proc: str = "/proc") -> str:
    """Tracer of a process, ``gdb (pid 4711)``; ``pid 4711`` if its name is unknown; empty without a tracer."""
    number = files.text(colon_field(files.read_or_none("%s/%d/status" % (proc, pid)) or b"", b"TracerPid"))
    if number in ("", "0"):
        return ""
    name = files.read_text("%s/%s/comm" % (proc, number))
    if name.isdigit():
        name = "py-spy"  # a lent py-spy is run from /proc/PID/fd/N, so its comm is N
    return "%s (pid %s)" % (name, number) if name else "pid " + number


def children(pid: int, proc: str = "/proc") -> List[int]:
    """Child processes of all its threads; empty if the kernel does not list them."""
    folder = "%s/%d/task" % (proc, pid)
    lists = (files.read_text("%s/%s/children" % (folder, thread)) for thread in files.list_folder(folder))
    return [int(word) for words in lists for word in words.split()]


def call_names(machine: str) -> Dict[int, str]:
    """Names of system calls in which a rank may wait, by number; empty for an unknown architecture."""
    if machine == "x86_64":
        return {number: name for name, number, _ in _CALLS}
    return {number: name for name, _, number in _CALLS if number >= 0} if machine == "aarch64" else {}


_NAMES = call_names(os.uname().machine)


# --- what a call waits on --------------------------------------------------------------------------------------------


def _syscall(folder: str, pid: int, proc: str) -> Tuple[str, str]:
    """Name of the call and what the call waits on; both empty without the right to read them."""
    words = files.read_text(folder + "/syscall").split()
    if not words or words[0] in ("running", "-1"):
        return ("none" if words else ""), ""
    name = _NAMES.get(int(words[0]), words[0])
    if name == "clock_nanosleep":
        return name, sleep_left(folder, words[1:4])
    if name in _ON_A_CHILD:
        return name, _child(pid, name, words[1:], proc)
    if name in ("poll", "ppoll"):
        descriptor = polled(folder, words[1:3])
        return name, "" if descriptor is None else _target(folder, descriptor, pid, proc)
    if name not in _ON_A_FILE or len(words) < 2:
        return name, ""
    return name, _target(folder, int(words[1], 16) & 0xFFFFFFFF, pid, proc)


def _child(pid: int, name: str, arguments: Sequence[str], proc: str) -> str:
    """The one child whose end a call waits for, ``process 4711`` (this node's pid); empty if any child would do."""
    if len(arguments) < 2 or (name == "waitid" and int(arguments[0], 16) != _ONE_PROCESS):
        return ""
    wanted = int(arguments[_ON_A_CHILD[name]], 16)
    for child in children(pid, proc) if 0 < wanted < 1 << 31 else ():
        status = read_status(proc, child)
        if wanted == (child if status is None else status.inner_pid):
            return "process %d" % child
    return ""


def _target(folder: str, descriptor: int, pid: int, proc: str) -> str:
    """Target of a descriptor: a path, ``pipe``, or a description of a socket.

    ``tcp address:port`` is the socket's far end, followed by the far end's process if it is on this node; ``a
    connection at tcp address:port`` a listening socket's own address; ``socket`` a socket that is not TCP.
    """
    target = files.link("%s/fd/%d" % (folder, descriptor))
    if not target.startswith("socket:["):
        return "pipe" if target.startswith("pipe:[") else target
    try:
        for socket in tcp_sockets(pid, ALL & ~(1 << TIME_WAIT), proc=proc):
            if target == "socket:[%d]" % socket.inode:
                if socket.state == LISTEN:
                    return "a connection at tcp " + socket.local
                holder = far_end(socket, pid, proc)
                return "tcp " + socket.remote + (", " + holder if holder else "")
    except OSError:  # a network that may not be entered
        return "socket"
    return "socket"


def far_end(near: TcpSocket, pid: int, proc: str = "/proc") -> str:
    """Process at the far end, ``process 71 (python3)``; empty if it is on another node, or no such process is found.

    The process with the lowest pid is named: a forked child shares its parent's descriptors.
    """
    port = int(near.remote.rpartition(":")[2])
    for socket in tcp_sockets(pid, 1 << ESTABLISHED, port=port, proc=proc) if near.state == ESTABLISHED else ():
        if socket.inode and socket.local == near.remote and socket.remote == near.local:
            uid = files.owner("%s/%d" % (proc, pid))
            others = sorted(int(name) for name in files.list_folder(proc) if name.isdigit() and int(name) != pid)
            likely = (other for other in others if files.owner("%s/%d" % (proc, other)) == uid)
            owner = socket_owner(socket.inode, likely, proc)
            stat = None if owner is None else read_stat(proc, owner)
            if owner is None or stat is None:
                return ""
            runs = any(thread.state == "R" for _, thread in threads(proc, owner, THREADS))
            return "process %d (%s)%s" % (owner, stat.comm, RUNS if runs else "")
    return ""


def lock_holder(pid: int, proc: str = "/proc") -> str:
    """Holder of the file lock that a process waits for, ``process 708 (python3)``; empty when unknown.

    /proc/locks (proc_locks(5)) lists a lock, ``1: FLOCK  ADVISORY  WRITE 708 08:01:1449 0 EOF``, then its waiters with
    the same number and an arrow, ``1: -> FLOCK  ADVISORY  WRITE 709 …``. The pid is -1 for a lock of an open file
    description; locks held by other machines are not listed.
    """
    keeper = ("", 0)
    for number, waits, owner in _LOCK.findall(files.text(files.read_or_none(proc + "/locks") or b"")):
        if not waits:
            keeper = (number, int(owner[:12]))
        elif int(owner[:12]) == pid and keeper[0] == number and keeper[1] > 0:
            stat = read_stat(proc, keeper[1])
            return "process %d%s" % (keeper[1], " (%s)" % stat.comm if stat is not None else ", which is gone")
    return ""


def polled(folder: str, words: Sequence[str]) -> Optional[int]:
    """The descriptor that poll(2) waits on, if only one; ``words`` are its arguments, as in /proc/PID/syscall."""
    try:
        address, count = (int(word, 16) for word in words)
        return int(_memory(folder, address, _POLLED)[0]) if count == 1 else None
    except (OSError, ValueError, OverflowError, struct.error):  # malformed, unreadable, or the call has returned
        return None


def _memory(folder: str, address: int, layout: struct.Struct) -> Tuple[int, ...]:
    """Read numbers from the memory of a process, without stopping it."""
    memory = os.open(folder + "/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return layout.unpack(os.pread(memory, layout.size, address))
    finally:
        os.close(memory)


def sleep_left(folder: str, words: Sequence[str]) -> str:
    """Rest of a sleep, ``its clock for 13 s more``; empty when unknown. ``words``: arguments, as in /proc/PID/syscall.

    CPython (3.11 and later) sleeps until a time of the monotonic clock; that time is read from the process's memory,
    without stopping the process.
    """
    try:
        clock, flags, address = (int(word, 16) for word in words[:3])
        offsets = files.read_text(folder + "/timens_offsets"), files.read_text("/proc/self/timens_offsets")
        if (clock, flags & 1) != (time.CLOCK_MONOTONIC, 1) or offsets[0] != offsets[1]:  # 1 is TIMER_ABSTIME
            return ""
        seconds, _ = _memory(folder, address, _TIMESPEC)
    except (OSError, ValueError, OverflowError, struct.error):  # malformed, unreadable, or the call has returned
        return ""
    more = int(seconds - time.monotonic())
    return "its clock for %d s more" % min(more, _LONGEST_S) if more >= 0 else ""
