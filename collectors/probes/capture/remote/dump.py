"""Runs tcpdump for a while and passes on what it writes: the capture on standard output, a line about it on the other.

tcpdump ends with this program, and this program with its input, or when no heartbeat comes on it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Dict, List

from collectors.node import watchdog, wire
from collectors.node.child import Child, find
from collectors.node.files import text
from collectors.node.source import Absent
from collectors.samples.asked import Observation

STOP_SECONDS = 3.0
"""For tcpdump to write its last packets and its statistics after SIGINT."""


def pass_on(child: Child, seconds: float, most: int, output: int) -> int:
    """Copy the child's output until it ends, ``seconds`` are over or ``most`` bytes came; returns the bytes."""
    until = time.monotonic() + seconds
    done, stopped = 0, False
    while True:
        child.wait_output(max(0.0, min(0.2, until - time.monotonic())))
        data = child.read()
        if not data and child.status is not None:
            return done
        if done < most:  # the rest is read and thrown away, so that tcpdump can end
            done += len(data)
            _write(output, data)
        if not stopped and (time.monotonic() >= until or done >= most):
            os.kill(child.pid, signal.SIGINT)
            until, stopped = time.monotonic() + STOP_SECONDS, True
        elif stopped and time.monotonic() >= until:
            return done


def _write(output: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(output, view) :]


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``command``: tcpdump's words after its name, ``seconds``, ``most``: bytes."""
    seconds = float(str(arguments.get("seconds", 5)))
    words = arguments.get("command")
    rest: List[str] = [str(word) for word in words] if isinstance(words, list) else []
    tool = find("tcpdump")
    done, said, status = 0, "tcpdump is not installed", None
    if tool is not None:
        try:
            child = Child([tool, *rest], limit=1 << 20)
        except Absent as error:
            said = str(error)
        else:
            done = pass_on(child, seconds, int(str(arguments.get("most", 1 << 24))), 1)
            status = child.status
            said = text(child.read_errors()).strip()
            child.end()
    sys.stderr.buffer.write(wire.encode(Observation("capture", "tcpdump", [done, status], said[-600:])))
    sys.stderr.buffer.flush()
