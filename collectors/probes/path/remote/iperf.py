"""iperf3 on a node: a server for one test, or a client. It ends with this program, and this program with its input."""

from __future__ import annotations

import json
import signal
from typing import Dict, List, Optional, Tuple

from collectors.node import watchdog
from collectors.node.child import find, run
from collectors.node.files import text
from collectors.node.network.tcp import start_server
from collectors.node.say import say_all
from collectors.node.source import Absent
from collectors.samples.asked import Observation

CLIENT_SECONDS = 20.0


def parse_client(said: str) -> Tuple[str, Optional[float], Optional[int], str]:
    """(version, bytes a second that arrived, segments sent again, error) of ``iperf3 -J``."""
    try:
        document = json.loads(said)
    except (ValueError, RecursionError):
        return "iperf3", None, None, "its answer is no JSON"
    start, end = _part(document, "start"), _part(document, "end")
    version = str(start.get("version") or "iperf3")[:40]
    error = document.get("error") if isinstance(document, dict) else None
    if error:
        return version, None, None, str(error)[:200]
    rate = _part(end, "sum_received").get("bits_per_second")
    again = _part(end, "sum_sent").get("retransmits")
    known = isinstance(rate, (int, float)) and not isinstance(rate, bool) and 0 <= rate < 1e18
    if not known:
        return version, None, None, "its answer has no rate"
    return version, float(str(rate)) / 8.0, again if isinstance(again, int) else None, ""


def _part(document: object, name: str) -> Dict[str, object]:
    part = document.get(name) if isinstance(document, dict) else None
    return part if isinstance(part, dict) else {}


def serve(tool: str) -> Observation:
    """Start a server on a free port; the answer once it listens."""
    port, why = start_server(lambda free: [tool, "-s", "-1", "-p", str(free)])
    return Observation("listen", "iperf3", port, why)


def measure(tool: str, host: str, port: int, size: int) -> Observation:
    """Send ``size`` bytes to a server."""
    try:
        ended = run([tool, "-c", host, "-p", str(port), "-n", str(size), "-J"], CLIENT_SECONDS)
    except Absent as error:
        return Observation("iperf3", "iperf3", None, str(error))
    if ended.status is None:
        return Observation("iperf3", "iperf3", None, "no end in %.0f s" % CLIENT_SECONDS)
    version, rate, again, wrong = parse_client(text(ended.stdout))
    return Observation("iperf3", version, None if rate is None else [rate, again], wrong)


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``serve``: be a server; else ``host``, ``port``, ``bytes``: be a client."""
    # Python ignores SIGPIPE, and a child would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    tool = find("iperf3")
    answers: List[Observation] = []
    if tool is None:
        answers.append(Observation("iperf3", "iperf3", None, "not there"))
    elif arguments.get("serve"):
        answers.append(serve(tool))
    else:
        host, port = str(arguments.get("host")), int(str(arguments.get("port")))
        answers.append(measure(tool, host, port, int(str(arguments.get("bytes")))))
    say_all(answers)
    if arguments.get("serve") and not answers[0].error:
        watchdog.stay()
