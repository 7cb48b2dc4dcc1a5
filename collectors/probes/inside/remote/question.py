"""Writes a question onto the pages of ranks on this node: which check, at the end of which step.

Only as the rank's own user or as root: the kernel opens a page to nobody else. What is written are six numbers, the
question's own last; a process that has moved on, or whose page is another's, is left alone.
"""

from __future__ import annotations

import os
import struct
import time
from typing import Dict, NamedTuple, Optional

from collectors.node import watchdog
from collectors.node.files import read_or_none
from collectors.node.processes.pages import OpenPage, find, memfd_device, read_head
from collectors.node.processes.procfs import parse_status
from collectors.node.say import say
from collectors.samples import page as layout

WAITS = 120.0
"""Seconds for which a question that nobody has taken is left alone; after that its step does not come."""


class Asked(NamedTuple):
    """What became of the question to one process."""

    pid: int
    """-1 in the line that ends the answer."""
    written: bool
    why: str


def write(
    pid: int, number: int, check: str, at_step: int, seconds: float, group: int = 0, proc: str = "/proc"
) -> Asked:
    """Ask one process. ``group`` is the :func:`~collectors.samples.page.group_number` of a group, 0 for all ranks."""
    page = _page(pid, proc)
    if page is None:
        return Asked(pid, False, "it shares no page that may be written to here (another user's?), or is gone")
    try:
        head = read_head(page)
        if group and (head is None or head.version < 2):  # it would make the check with all ranks, which do not come
            return Asked(pid, False, "its hangtop.inside is older than this one and knows no groups")
        now = time.time()
        if head is not None and head.question and 0.0 <= now - head.asked_at < WAITS:
            # whoever was asked with it would wait for this one in vain
            return Asked(pid, False, "another question waits there for its step: ask again when that is answered")
        numbers = struct.pack("=qqdd", layout.CHECKS.index(check), at_step, seconds, now)
        os.pwrite(page.file, numbers, 8 * layout.CHECK)
        os.pwrite(page.file, struct.pack("=q", group), 8 * layout.GROUP)
        os.pwrite(page.file, struct.pack("=q", number), 8 * layout.QUESTION)
    except OSError as error:
        return Asked(pid, False, os.strerror(error.errno or 0))
    finally:
        os.close(page.file)
    return Asked(pid, True, "")


def withdraw(pid: int, number: int, proc: str = "/proc") -> Asked:
    """Take a question back that has not been taken yet; ``written`` says whether it was still there."""
    page = _page(pid, proc)
    if page is None:
        return Asked(pid, False, "")
    try:
        head = read_head(page)
        if head is None or head.question != number:
            return Asked(pid, False, "")
        os.pwrite(page.file, struct.pack("=q", 0), 8 * layout.QUESTION)
    except OSError as error:
        return Asked(pid, False, os.strerror(error.errno or 0))
    finally:
        os.close(page.file)
    return Asked(pid, True, "")


def _page(pid: int, proc: str) -> Optional[OpenPage]:
    device = memfd_device()
    status = parse_status(read_or_none("%s/%d/status" % (proc, pid)) or b"", pid)
    return None if device is None or status is None else find(proc, pid, status.uid, device, write=True)


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``pids``, ``number`` (positive), ``check`` (of ``CHECKS``), ``at_step``, ``seconds``, ``group``.

    Without a ``check`` the question of that number is taken back.
    """
    pids, number, check = arguments["pids"], arguments["number"], arguments["check"]
    at_step, seconds, group = arguments["at_step"], arguments["seconds"], arguments["group"]
    assert isinstance(pids, list)
    assert isinstance(number, int)
    assert isinstance(check, str)
    assert isinstance(at_step, int)
    assert isinstance(seconds, (int, float))
    assert isinstance(group, int)
    for pid in pids:
        say(write(pid, number, check, at_step, float(seconds), group) if check else withdraw(pid, number))
    say(Asked(-1, False, ""))
