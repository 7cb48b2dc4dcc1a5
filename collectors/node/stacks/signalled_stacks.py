"""Stacks that a rank writes down itself on a signal, where no py-spy may read them from outside.

``hangtop.inside.start()`` has ``faulthandler`` write all threads into a memfd on a real-time signal, and says on its
page which. Sent only where somebody agreed to it, by a login that may, and after a look at what the process does with
that signal: one that nobody catches would end it. The handler is C, takes no lock and needs no GIL (CPython's
Modules/faulthandler.c); system calls that it interrupts are begun anew (SA_RESTART), or come back with EINTR.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import suppress
from typing import List, Optional

from collectors.node.files import link, opened, read_or_none, regular
from collectors.node.processes.pages import FILES, find, memfd_device, read_head
from collectors.node.processes.procfs import parse_status
from collectors.node.stacks.served_stacks import INSTEAD_OF, LIMIT, threads
from collectors.samples import page as layout
from collectors.samples.stacks import StackDump

METHOD = "faulthandler"
SECONDS = 4.0
"""Seconds in which it begins to write, also where all cores are taken."""
QUIET = 0.15
"""Seconds without a further line after which it has written all."""
STEP = 0.005
"""Seconds between two looks at what has been written."""
_NAME = "/memfd:%s " % layout.STACKS
_SEND = getattr(signal, "pidfd_send_signal", None)
"""From Python 3.9 on."""


def instead(dump: StackDump, proc: str = "/proc") -> Optional[StackDump]:
    """The same look with the frames that the process writes when it is signalled.

    None where py-spy's answer stands, or the process opened no such way. Raises :class:`OSError` where it may not be
    signalled, or does not answer; nothing is sent to one that is stopped, or does not catch the signal.
    """
    if dump.threads or dump.error.partition(":")[0] not in INSTEAD_OF:
        return None
    descriptor = _descriptor(dump.pid)
    try:
        number = _signal(dump.pid, proc)
        file = _file(dump.pid, proc) if number else -1
        if file < 0:
            return None
        try:
            said = _ask(dump, number, file, descriptor)
        finally:
            os.close(file)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    found = threads(said.decode("utf-8", "replace"), dump.pid, dump.state == "R")
    return dump._replace(threads=found, method=METHOD, error="", way_out="") if found else None


def _descriptor(pid: int) -> int:
    """Stands for this very process, whatever becomes of its number; -1 before Linux 5.3 and Python 3.9."""
    opened = getattr(os, "pidfd_open", None)
    if opened is None or _SEND is None:
        return -1
    try:
        return int(opened(pid))
    except OSError:
        return -1


def _signal(pid: int, proc: str) -> int:
    """The signal that its page names and that it does catch; 0 for none."""
    device, text = memfd_device(), read_or_none("%s/%d/status" % (proc, pid)) or b""
    status = parse_status(text, pid)
    page = None if device is None or status is None else find(proc, pid, status.uid, device)
    if page is None:
        return 0
    head = read_head(page)
    os.close(page.file)
    number = 0 if head is None else head.signal
    return number if signal.SIGRTMIN <= number <= signal.SIGRTMAX and caught(text, number) else 0


def caught(status: bytes, number: int) -> bool:
    """Whether a process with this /proc/PID/status handles a signal, and does not hold it back."""
    masks = {}
    for line in status.splitlines():
        name, _, value = line.partition(b":")
        if name in (b"SigCgt", b"SigBlk"):
            masks[name] = int(value.strip() or b"0", 16) >> (number - 1) & 1
    return masks.get(b"SigCgt") == 1 and not masks.get(b"SigBlk")


def _file(pid: int, proc: str) -> int:
    """The memfd that its handler writes to, open; -1 for none."""
    folder, device = "%s/%d/fd" % (proc, pid), memfd_device()
    status = parse_status(read_or_none("%s/%d/status" % (proc, pid)) or b"", pid)

    def accept(found: os.stat_result) -> bool:
        return regular(found) and found.st_dev == device and status is not None and found.st_uid == status.uid

    numbers = sorted(int(name) for name in os.listdir(folder) if name.isdigit())
    for number in numbers[:FILES]:
        path = "%s/%d" % (folder, number)
        if not link(path).startswith(_NAME):
            continue
        with suppress(OSError):
            return opened(path, accept, os.O_RDWR)
    return -1


def _ask(dump: StackDump, number: int, file: int, descriptor: int) -> bytes:
    """Signal it and take what it writes. Raises :class:`OSError`."""
    if dump.state in ("T", "t", "D"):
        raise OSError("not signalled: it is %s" % ("uninterruptible" if dump.state == "D" else "stopped"))
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # two that ask at once would read one another's
    os.ftruncate(file, 0)
    if descriptor >= 0 and _SEND is not None:
        _SEND(descriptor, number)
    else:
        os.kill(dump.pid, number)
    until, size, grown = time.monotonic() + SECONDS, 0, 0.0
    while not size or time.monotonic() - grown < QUIET:
        time.sleep(STEP)
        now = os.fstat(file).st_size
        if now != size:
            size, grown = now, time.monotonic()
        elif not size and time.monotonic() > until:
            raise OSError("signal %d was sent, and nothing came within %g s" % (number, SECONDS))
    parts: List[bytes] = []
    while sum(map(len, parts)) < min(size, LIMIT):
        part = os.pread(file, LIMIT, sum(map(len, parts)))
        if not part:
            break
        parts.append(part)
    os.ftruncate(file, 0)
    return b"".join(parts)
