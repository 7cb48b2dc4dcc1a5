"""Runs tcpdump for a while and passes on what it writes: the capture on standard output, a line about it on the other.

tcpdump ends with this program, and this program with its input, or when no heartbeat comes on it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Dict

from collectors.node import watchdog, wire
from collectors.node.child import Child, find
from collectors.node.files import text
from collectors.node.source import Absent
from collectors.samples.asked import Observation

STOP_SECONDS = 3.0
"""For tcpdump to write its last packets and its statistics after SIGINT."""


def pass_on(child: Child, seconds: float, most: int) -> None:
    """Copy the child's output until it ends, ``seconds`` are over or ``most`` bytes came."""
    until = time.monotonic() + seconds
    done, stopped = 0, False
    while True:
        child.wait_output(max(0.0, min(0.2, until - time.monotonic())))
        data = child.read()
        if not data and child.status is not None:
            return
        view = memoryview(data if done < most else b"")  # the rest is thrown away, so that tcpdump can end
        done += len(data)
        while view:
            view = view[os.write(1, view) :]
        if not stopped and (time.monotonic() >= until or done >= most):
            os.kill(child.pid, signal.SIGINT)
            until, stopped = time.monotonic() + STOP_SECONDS, True
        elif stopped and time.monotonic() >= until:
            return


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``command``: tcpdump's words after its name, ``seconds``, ``most``: bytes."""
    words, tool = arguments.get("command"), find("tcpdump")
    said = "tcpdump is not installed"
    if tool is not None and isinstance(words, list):
        try:
            child = Child([tool, *map(str, words)], limit=1 << 20)
        except Absent as error:
            said = str(error)
        else:
            pass_on(child, float(str(arguments["seconds"])), int(str(arguments["most"])))
            said = text(child.read_errors()).strip()
            child.end()
    sys.stderr.buffer.write(wire.encode(Observation("capture", "tcpdump", None, said[-600:])))
    sys.stderr.buffer.flush()
