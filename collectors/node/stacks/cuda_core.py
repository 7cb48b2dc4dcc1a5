"""CUDA's core dump of a GPU, asked of a process through the pipe that its driver reads.

Only a process that was started with CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1 has such a pipe: CUDA_COREDUMP_PIPE, by
default ``corepipe.cuda.HOST.PID`` in its working directory; the dump goes to CUDA_COREDUMP_FILE, by default
``core_TIME_HOST_PID.nvcudmp`` there (``%h`` host, ``%p`` pid, ``%t`` time; cuda-gdb's manual, "GPU core dump support").
Nothing is asked of a process whose settings would have all of the GPU's memory written.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
import time
from typing import Callable, Dict, List, NamedTuple, Optional

from collectors.node.files import link, list_folder
from collectors.node.processes.rooted import seen_by
from collectors.samples.core_dump import FILE, PIPE

TRIGGER = 1 << 20
"""Bytes that are written at the most: some drivers take no notice of a few."""
TRIGGER_SECONDS = 2.0


class CorePlaces(NamedTuple):
    """Where a process is asked for a dump, and where it writes it; as this side opens them."""

    pipe: str
    pattern: str
    """For glob."""


def places(pid: int, own_pid: int, env: Dict[str, str], proc: str = "/proc") -> Optional[CorePlaces]:
    """The pipe that a process holds open, and where its dump will be; None where it has no such pipe open."""
    cwd = link("%s/%d/cwd" % (proc, pid))
    wanted = _pattern(env.get(PIPE) or "corepipe.cuda.%h.%p", own_pid, cwd)
    for name in list_folder("%s/%d/fd" % (proc, pid)):
        path = "%s/%d/fd/%s" % (proc, pid, name)
        target = link(path)
        if re.fullmatch(wanted, target) and _is_pipe(path):
            core = env.get(FILE) or "core_%t_%h_%p.nvcudmp"
            return CorePlaces(path, seen_by(pid, _expanded(core, own_pid, cwd, "*", glob.escape), proc))
    return None


def _pattern(template: str, own_pid: int, cwd: str) -> str:
    return _expanded(template, own_pid, cwd, r"[^/]*", re.escape)


def _expanded(template: str, own_pid: int, cwd: str, anything: str, escape: "Callable[[str], str]") -> str:
    whole = template if template.startswith("/") else cwd.rstrip("/") + "/" + template
    parts = re.split(r"(%[hpt])", whole)
    return "".join(
        escape(str(own_pid)) if part == "%p" else anything if part in ("%h", "%t") else escape(part) for part in parts
    )


def _is_pipe(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def trigger(pipe: str, uid: Optional[int]) -> str:
    """Ask for a dump; the reason why that was not possible, or nothing. ``uid``: who must own the pipe."""
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return "its driver does not read the pipe"
        return os.strerror(error.errno or 0)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISFIFO(found.st_mode) or uid not in (None, found.st_uid):
            return "that is no pipe of the rank's"
        return _fill(descriptor)
    finally:
        os.close(descriptor)


def _fill(descriptor: int) -> str:
    left, until = TRIGGER, time.monotonic() + TRIGGER_SECONDS
    while left > 0 and time.monotonic() < until:
        try:
            left -= os.write(descriptor, b"\0" * min(left, 1 << 16))
        except BlockingIOError:  # full: the driver takes it at its own pace, or a first part was enough for it
            time.sleep(0.02)
        except OSError as error:
            # it has closed its end: what was written counts
            return "" if left < TRIGGER else os.strerror(error.errno or 0)
    return "" if left < TRIGGER else "nothing could be written into the pipe"


class WrittenDump(NamedTuple):
    """A dump that was written to its end."""

    path: str
    size: int


def written(pattern: str, since: float, seconds: float, uid: Optional[int]) -> Optional[WrittenDump]:
    """Wait for a dump that was begun after ``since`` and grows no more; None where none came in time."""
    until, seen = time.monotonic() + seconds, []  # type: float, List[WrittenDump]
    while time.monotonic() < until:
        found = _fresh(pattern, since, uid)
        for dump in found:
            if dump.size > 0 and dump in seen:
                return dump
        seen = found
        time.sleep(0.5)
    return None


def _fresh(pattern: str, since: float, uid: Optional[int]) -> List[WrittenDump]:
    found = []
    for path in glob.glob(pattern):
        try:
            known = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(known.st_mode) and known.st_mtime >= since - 1.0 and uid in (None, known.st_uid):
            found.append(WrittenDump(path, known.st_size))
    return found
