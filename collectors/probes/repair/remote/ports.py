"""Says which TCP ports of a node are in use, from /proc/net alone: what opens nothing is in nobody's way."""

from __future__ import annotations

from typing import Dict, List

from collectors.node import watchdog
from collectors.node.files import read_text
from collectors.node.processes.socket_tables import local_ports, read_tables
from collectors.node.say import say
from collectors.probes.repair.remote.words import PortsInUse

DEFAULT_RANGE = (32768, 60999)
"""net.ipv4.ip_local_port_range of a kernel that was not told otherwise (Documentation/networking/ip-sysctl)."""


def look(proc: str = "/proc") -> PortsInUse:
    """Answer for this network namespace."""
    settings = proc + "/sys/net/ipv4/"
    words = read_text(settings + "ip_local_port_range").split()
    known = len(words) == 2 and all(word.isdigit() for word in words)
    lowest, highest = (int(words[0]), int(words[1])) if known else DEFAULT_RANGE
    tables = read_tables(proc + "/net")
    error = "" if tables[0] else "/proc/net/tcp may not be read"  # what can be read has its heading at the least
    found: List[int] = sorted(local_ports(tables))
    return PortsInUse(lowest, highest, read_text(settings + "ip_local_reserved_ports"), found, error)


@watchdog.program
def main(_arguments: Dict[str, object]) -> None:
    """Entry; takes no arguments and says one line."""
    say(look())
