"""A tool that serves one test (iperf3, ib_write_bw): started on a free port, and known to listen there."""

from __future__ import annotations

import time
from typing import Callable, List, Optional, Tuple

from collectors.node.child import Child
from collectors.node.files import text
from collectors.node.network import tcp
from collectors.node.processes.socket_tables import listening, read_tables
from collectors.node.source import Absent

START_SECONDS = 5.0


def start_server(command: Callable[[int], List[str]]) -> Tuple[Optional[int], str]:
    """(port on which the tool listens, reason why there is none); ``command`` makes its words from the port.

    The tool ends with the thread that calls this.
    """
    listener, why = tcp.listen(0)
    if listener is None:
        return None, "cannot listen: " + why
    port = int(listener.getsockname()[1])
    listener.close()
    words = command(port)
    try:
        child = Child(words)
    except Absent as error:
        return None, str(error)
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if any(open_port == port for open_port, _ in listening(read_tables("/proc/net"))):
            return port, ""
        if child.ended(0.02) is not None:
            return None, last_line(child.read_errors() or child.read()) or "it ended at once"
    return None, "it did not listen in %.0f s" % START_SECONDS


def last_line(said: bytes) -> str:
    """The last line of a tool's output that is not empty: usually why it ended."""
    lines = [line.strip() for line in text(said).splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
