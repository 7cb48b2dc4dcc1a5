"""A simulated perfquery: ``-x``, ``-C ADAPTER`` and ``-P PORT``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hangtop.demo.devices.port_model import counters, device, is_up
from hangtop.demo.devices.state import DeviceFolder

WIDTHS = {"PortXmitData": 32, "PortRcvData": 32, "PortXmitPkts": 32, "PortRcvPkts": 32, "PortXmitWait": 32}
"""Bits of plain counters that are wider than 16."""


def main(arguments: Sequence[str]) -> int:
    """Print one port's counters; the exit status."""
    node = DeviceFolder()
    adapter = device(0)
    if "-C" in arguments[:-1]:
        adapter = arguments[arguments.index("-C") + 1]
    found = [port for port in range(node.hardware["ports"]) if device(port) == adapter]
    if not found or not is_up(node, found[0]):
        sys.stderr.write("perfquery: iberror: failed: can't resolve self port\n")
        return 1
    extended = "-x" in arguments
    kind = "Port extended counters" if extended else "Port counters"
    sys.stdout.write(f"# {kind}: Lid {100 + found[0]} port 1 (CapMask: 0x5300)\nPortSelect:......................1\n")
    for name, value in counters(node, found[0]).items():
        # plain counters stick at their end
        shown = value if extended else min(value, (1 << WIDTHS.get(name, 16)) - 1)
        sys.stdout.write(f"{name}:{'.' * (32 - len(name))}{shown}\n")
    return 0
