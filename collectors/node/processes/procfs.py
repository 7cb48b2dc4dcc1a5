"""Parsers of a process's files in /proc: bytes in, values out.

Formats: proc_pid_stat(5), proc_pid_status(5), proc_pid_limits(5), proc_pid_io(5), cgroups(7).
"""

from __future__ import annotations

import os
import re
import time
from typing import Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.files import list_folder, read_or_none, text

CLOCK_TICKS: int = os.sysconf("SC_CLK_TCK")
PAGE_SIZE: int = os.sysconf("SC_PAGE_SIZE")


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that are used."""

    comm: str
    state: str
    parent: int
    cpu_user: float
    cpu_system: float
    threads: int
    start_ticks: int
    """Clock ticks after boot at which the process started: with the pid, its identity."""
    rss: int
    nice: int = 0
    """-20 to 19."""
    children_cpu: float = 0.0
    """CPU seconds of its children that have ended and that it has waited for."""
    wait_status: Optional[int] = None
    """Wait status (wait(2)) of a process that has ended; None if the kernel (before 3.5) does not report it."""

    @property
    def has_ended(self) -> bool:
        """True for a zombie without other threads; state Z with threads left means that only the main thread ended."""
        return self.state in "ZXx" and self.threads < 2


class ProcessStatus(NamedTuple):
    """Fields of /proc/PID/status that are not in stat."""

    uid: int
    """Effective user id."""
    inner_pid: int
    """Pid in the process's own PID namespace."""
    voluntary_switches: int
    involuntary_switches: int


def parse_stat(data: bytes) -> Optional[Stat]:
    """Fields of /proc/PID/stat; None when incomplete. The name may hold any bytes, including parentheses and spaces."""
    head, closed, rest = data.rpartition(b")")
    fields = rest.split()
    if not closed or len(fields) < 22:
        return None
    try:
        return Stat(
            comm=text(head.partition(b"(")[2]),
            state=text(fields[0])[:1],
            parent=int(fields[1]),
            cpu_user=int(fields[11]) / CLOCK_TICKS,
            cpu_system=int(fields[12]) / CLOCK_TICKS,
            threads=int(fields[17]),
            start_ticks=int(fields[19]),
            rss=int(fields[21]) * PAGE_SIZE,
            nice=max(-20, min(19, int(fields[16]))),
            children_cpu=(int(fields[13]) + int(fields[14])) / CLOCK_TICKS,
            wait_status=int(fields[49]) if len(fields) > 49 else None,
        )
    except (ValueError, OverflowError):
        return None


def read_stat(proc: str, pid: int) -> Optional[Stat]:
    """Stat of a process; None when it is gone."""
    return parse_stat(read_or_none("%s/%d/stat" % (proc, pid)) or b"")


def threads(proc: str, pid: int, most: int = 512) -> Iterator[Tuple[str, Stat]]:
    """Folder and stat of each thread of a process, at most ``most``."""
    for name in list_folder("%s/%d/task" % (proc, pid))[:most]:
        folder = "%s/%d/task/%s" % (proc, pid, name)
        stat = parse_stat(read_or_none(folder + "/stat") or b"")
        if stat is not None:
            yield folder, stat


def read_status(proc: str, pid: int) -> Optional[ProcessStatus]:
    """Status of a process; None when it is gone."""
    return parse_status(read_or_none("%s/%d/status" % (proc, pid)) or b"", pid)


def parse_status(data: bytes, pid: int) -> Optional[ProcessStatus]:
    """Fields of /proc/PID/status; None when incomplete. Without NSpid (kernels before 4.1) ``inner_pid`` is ``pid``."""
    try:
        inner = colon_field(data, b"NSpid").split() or [b"%d" % pid]
        return ProcessStatus(
            uid=int(colon_field(data, b"Uid").split()[1]),
            inner_pid=int(inner[-1]),
            voluntary_switches=int(colon_field(data, b"voluntary_ctxt_switches") or b"0"),
            involuntary_switches=int(colon_field(data, b"nonvoluntary_ctxt_switches") or b"0"),
        )
    except (ValueError, IndexError):
        return None


def colon_field(data: bytes, name: bytes) -> bytes:
    """Value of a ``Name:<white space>value`` line; empty when there is none."""
    _, _, rest = (b"\n" + data).partition(b"\n" + name + b":")
    return rest.partition(b"\n")[0].strip()


def parse_io(data: bytes) -> Tuple[Optional[int], Optional[int]]:
    """Bytes read and written by system calls since start, from /proc/PID/io; None for a missing value."""
    return _number(colon_field(data, b"rchar")), _number(colon_field(data, b"wchar"))


def parse_schedstat(data: bytes) -> Optional[Tuple[float, float]]:
    """Seconds that a thread has run, and seconds that it was runnable without a CPU, from /proc/PID/schedstat.

    None if the kernel does not count them: it then writes three zeros.
    """
    ran, waited = (_number(word) for word in (*data.split(), b"", b"")[:2])
    return (round(ran / 1e9, 4), waited / 1e9) if ran and waited is not None else None


def _number(value: bytes) -> Optional[int]:
    try:
        return int(value)
    except ValueError:
        return None


def parse_wchan(data: bytes) -> str:
    """Kernel function in which a thread waits; empty when the thread does not wait, or when unknown."""
    name = text(data).strip()
    return "" if name == "0" else name


def split_zeros(data: bytes) -> List[str]:
    """Words of /proc/PID/cmdline (each ends in NUL; a process title may have replaced them by a single text)."""
    words = data.rstrip(b"\0").split(b"\0")
    return [text(word) for word in words] if words != [b""] else []


def boot_time() -> float:
    """Wall clock time of boot, from the clocks alone: /proc/uptime is faked inside some containers."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


# --- control groups, version 2 (cgroups(7), Documentation/admin-guide/cgroup-v2.rst) --------------------------------


class Cgroup(NamedTuple):
    """Position of a process in the cgroup tree."""

    path: str
    """Relative to the mount of cgroup v2."""
    name: str
    """Container id, or the scheduler's name of the job; empty outside both."""


_NAMES = (
    re.compile(r"(?:^|[/:.-])([0-9a-f]{64})(?:\.scope)?(?:$|/)"),
    re.compile(r"/(job_\d+(?:/step_[^/]+)?)"),
    re.compile(r"/(?:lxc(?:\.payload)?[./]|machine\.slice/machine-)([^/]+)"),
)
"""Names in a group's path: of a container, a job of Slurm, a machine of LXC or systemd."""


def parse_cgroup(data: bytes) -> Cgroup:
    """Position of a process according to /proc/PID/cgroup; ``name`` may also come from a version 1 hierarchy."""
    path = name = ""
    for line in text(data).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        path = group if number == "0" and not controllers else path
        named = filter(None, (pattern.search(group) for pattern in _NAMES))
        name = name or next((found.group(1)[:64] for found in named), "")
    return Cgroup(path, name)


def upward(path: str) -> Iterator[str]:
    """A group's path and its parents' up to the root, ``""`` (in a cgroup namespace: the container's own group)."""
    path = path.rstrip("/")
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield ""


SYS_PTRACE = 19
"""Number of CAP_SYS_PTRACE in include/uapi/linux/capability.h."""


def may_trace_all(proc: str = "/proc") -> bool:
    """True when this process holds CAP_SYS_PTRACE (capabilities(7)); False when unknown."""
    mask = colon_field(read_or_none(proc + "/self/status") or b"", b"CapEff")
    return bool(int(mask or b"0", 16) >> SYS_PTRACE & 1)
