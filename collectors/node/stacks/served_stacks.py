"""Stacks from the debug server that a rank runs itself, where no py-spy may read them from outside.

What it answers is ``faulthandler``'s text (CPython's Python/traceback.c, 3.8 to 3.14), innermost frame first. Of the
threads it lists the newest first, so the main one last, but no more than a hundred: of more it ends with ``...``, and
the main one is not there. The server needs the GIL for it: a rank that holds it does not answer.
"""

from __future__ import annotations

import re
from typing import List, Optional

from collectors.node.nccl import debug_server
from collectors.samples.stacks import Frame, StackDump, ThreadStack

HANDLER = "dump_traceback"
METHOD = "debug server"
SECONDS = 1.5
LIMIT = 8 << 20
INSTEAD_OF = ("denied", "no-py-spy", "unsupported")
"""Reasons for which py-spy gave nothing while the process may well answer for itself."""

_THREAD = re.compile(
    r"^(?:Current thread|Thread) 0x([0-9a-f]{1,16})(?: \[([^\]\n]{0,64})\])? \(most recent call first\):$"
)
_FRAME = re.compile(r'^  File "([^"\n]{0,4096})", line (\d{1,9}|\?\?\?) in ([^\n]{0,500})$')


def threads(text: str, pid: int, active: bool) -> List[ThreadStack]:
    """Threads of a faulthandler's text; ``active`` says whether the main one runs, which the text does not."""
    found: List[ThreadStack] = []
    cut = False  # it ends before the oldest thread
    for line in text.splitlines():
        thread, frame = _THREAD.match(line), _FRAME.match(line)
        cut = line == "..." or (cut and not line)
        if thread is not None:
            found.append(ThreadStack(int(thread.group(1), 16), None, thread.group(2) or "", False, False, []))
        elif frame is not None and found:
            number = int(frame.group(2)) if frame.group(2) != "???" else 0
            found[-1].frames.append(Frame(frame.group(3), frame.group(1), number, False))
    if found and not cut:
        found[-1] = found[-1]._replace(os_thread_id=pid, name=found[-1].name or "MainThread", active=active)
    return found


def instead(dump: StackDump) -> Optional[StackDump]:
    """The same look with the frames that the process's own server tells.

    None where py-spy's answer stands or the process runs no such server. Raises :class:`OSError` when the server does
    not answer.
    """
    if dump.threads or dump.error.partition(":")[0] not in INSTEAD_OF:
        return None
    server = debug_server.find(dump.pid, HANDLER)
    if server is None:
        return None
    said = debug_server.ask(server, HANDLER, SECONDS, LIMIT).decode("utf-8", "replace")
    found = threads(said, dump.pid, dump.state == "R")
    return dump._replace(threads=found, method=METHOD, error="", way_out="") if found else None
