"""Which firewall is active on a node, and whether it has iperf3."""

from __future__ import annotations

from typing import Dict

from collectors.node import watchdog
from collectors.node.child import find
from collectors.node.network.firewall import firewalls
from collectors.node.say import say_all
from collectors.samples.asked import Observation


@watchdog.program
def main(_: Dict[str, object]) -> None:
    """Entry."""
    tool = find("iperf3")
    answers = [Observation("tool", "iperf3", tool, "" if tool else "not there"), *firewalls()]
    say_all([*answers, Observation("done", "", True, "")])
