"""Writes a question onto the pages of ranks on this node: which check, at the end of which step.

Only as the rank's own user or as root: the kernel opens a page to nobody else. What is written are six numbers, the
question's own last; a process that has moved on, or whose page is another's, is left alone.
"""

from __future__ import annotations

import os
import struct
import time
from typing import Dict, NamedTuple

from collectors.node import watchdog
from collectors.node.files import read_or_none
from collectors.node.pages import find, memfd_device, read_head
from collectors.node.procfs import parse_status
from collectors.node.say import say
from collectors.samples import page as layout


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
    device = memfd_device()
    status = parse_status(read_or_none("%s/%d/status" % (proc, pid)) or b"", pid)
    page = None if device is None or status is None else find(proc, pid, status.uid, device, write=True)
    if page is None:
        return Asked(pid, False, "it shares no page that may be written to here (another user's?), or is gone")
    try:
        head = read_head(page)
        if group and (head is None or head.version < 2):  # it would make the check with all ranks, which do not come
            return Asked(pid, False, "its hangtop.inside is older than this one and knows no groups")
        numbers = struct.pack("=qqdd", layout.CHECKS.index(check), at_step, seconds, time.time())
        os.pwrite(page.file, numbers, 8 * layout.CHECK)
        os.pwrite(page.file, struct.pack("=q", group), 8 * layout.GROUP)
        os.pwrite(page.file, struct.pack("=q", number), 8 * layout.QUESTION)
    except OSError as error:
        return Asked(pid, False, os.strerror(error.errno or 0))
    finally:
        os.close(page.file)
    return Asked(pid, True, "")


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``pids``, ``number`` (positive), ``check`` (of ``CHECKS``), ``at_step``, ``seconds``, ``group``."""
    pids, number, check = arguments["pids"], arguments["number"], arguments["check"]
    at_step, seconds, group = arguments["at_step"], arguments["seconds"], arguments["group"]
    assert isinstance(pids, list)
    assert isinstance(number, int)
    assert isinstance(check, str)
    assert isinstance(at_step, int)
    assert isinstance(seconds, (int, float))
    assert isinstance(group, int)
    for pid in pids:
        say(write(pid, number, check, at_step, float(seconds), group))
    say(Asked(-1, False, ""))
