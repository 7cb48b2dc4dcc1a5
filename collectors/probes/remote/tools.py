"""Tools of a node: find them, start one as a server, or run one to its end and return its output.

Every tool is a child with a parent-death signal, and this program ends at the end of its input or of heartbeats.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Dict, List

from collectors.node import watchdog
from collectors.node.child import Child, find, output
from collectors.node.files import text
from collectors.node.network import tcp
from collectors.node.network.firewall import firewalls
from collectors.node.processes.sockets import LISTEN, tcp_sockets
from collectors.node.source import Absent, Unavailable
from collectors.node.wire import say
from collectors.samples.probes import Observation

PRINTED = 16_000
"""Most characters of a tool's output that are returned."""
START_SECONDS, LISTEN_SECONDS = 0.3, 5.0
"""Seconds that a server without a port must live to count as started; seconds for a server with a port to listen."""


def serve(words: List[str]) -> Observation:
    """Start a server; ``{port}`` stands for a free port. The value of the answer is this port, or 0 without one."""
    name, port = words[0], 0
    if "{port}" in words:
        listener, why = tcp.listen(0)
        if listener is None:
            return Observation("listen", name, None, "cannot listen: " + why)
        port = int(listener.getsockname()[1])
        listener.close()
    try:
        child = Child([word.replace("{port}", str(port)) for word in words])
    except Absent as error:
        return Observation("listen", name, None, str(error))
    until = time.monotonic() + (LISTEN_SECONDS if port else START_SECONDS)
    while time.monotonic() < until:
        if port and any(tcp_sockets(os.getpid(), 1 << LISTEN, port=port)):
            return Observation("listen", name, port, "")
        if child.ended(0.02) is not None:
            printed, errors = child.read()
            said = text(errors or printed).strip()
            return Observation("listen", name, None, said.rpartition("\n")[2][:200] or "it ended at once")
    if port:
        return Observation("listen", name, None, "it did not listen in %.0f s" % LISTEN_SECONDS)
    return Observation("listen", name, 0, "")


def result(words: List[str], seconds: float) -> Observation:
    """Run a tool: its output, and the reason if it failed."""
    try:
        printed, why = output(*words, seconds=seconds)
    except Unavailable as reason:
        return Observation("result", words[0], None, str(reason))
    return Observation("result", words[0], printed[:PRINTED], why)


@watchdog.program
def main(arguments: Dict[str, Any]) -> None:
    """Entry point. ``find``: tools; ``firewalls``; ``serve``: command of a server; ``run``: command, ``seconds``."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores SIGPIPE, and children would, too
    server, words = arguments.get("serve"), arguments.get("run")
    answers = [Observation("tool", name, find(name), "") for name in arguments.get("find", [])]
    if arguments.get("firewalls"):
        answers += firewalls()
    if server:
        answers.append(serve(server))
    if words:
        answers.append(result(words, arguments["seconds"]))
    say(*answers)
    if server and not answers[-1].error:
        watchdog.stay()
