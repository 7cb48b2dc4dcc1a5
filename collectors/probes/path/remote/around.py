"""What a node makes of the others' names, which firewall is active on it, and whether it has iperf3.

Every name is asked for in a thread of its own, because a name service may take its time-outs: what has not answered
when the whole time is over is left out, and said to be.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import Dict, List, Sequence

from collectors.node import watchdog
from collectors.node.child import find
from collectors.node.network import tcp
from collectors.node.network.firewall import firewalls
from collectors.node.say import say_all
from collectors.samples.asked import Observation

SECONDS = 8.0


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``names``: to resolve."""
    names = arguments.get("names")
    tool = find("iperf3")
    answers = [Observation("own_name", socket.gethostname(), True, "")]
    answers.append(Observation("tool", "iperf3", tool, "" if tool else "not there"))
    answers += firewalls()
    answers += resolved([str(name) for name in names] if isinstance(names, list) else [], SECONDS)
    say_all([*answers, Observation("done", "", True, "")])


def resolved(names: Sequence[str], seconds: float) -> List[Observation]:
    """Addresses of each name by the node's own name service."""
    answers: Dict[str, Observation] = {}

    def ask(name: str) -> None:
        found, why = tcp.resolve(name)
        answers[name] = Observation("resolve", name, list(found), why)

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = "no answer in %.0f s" % seconds
    return [answers.get(name) or Observation("resolve", name, None, late) for name in names]
