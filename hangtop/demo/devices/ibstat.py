"""A simulated ibstat."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hangtop.demo.devices.port_model import device, is_up
from hangtop.demo.devices.state import DeviceFolder


def main(arguments: Sequence[str]) -> int:
    """Print every adapter, or the one that is named; the exit status."""
    node = DeviceFolder()
    named = [word for word in arguments if not word.startswith("-")]
    for port in range(node.hardware["ports"]):
        if named and device(port) not in named:
            continue
        up = is_up(node, port)
        sys.stdout.write(
            f"CA '{device(port)}'\n"
            "\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.39.1002\n\tHardware version: 0\n"
            f"\tNode GUID: 0xa088c20300de{port:04x}\n\tSystem image GUID: 0xa088c20300de{port:04x}\n"
            "\tPort 1:\n"
            f"\t\tState: {'Active' if up else 'Down'}\n\t\tPhysical state: {'LinkUp' if up else 'Polling'}\n"
            f"\t\tRate: {400 if up else 10}\n\t\tBase lid: {100 + port}\n\t\tLMC: 0\n\t\tSM lid: 1\n"
            f"\t\tCapability mask: 0xa751e848\n\t\tPort GUID: 0xa088c20300de{port:04x}\n\t\tLink layer: InfiniBand\n"
        )
    return 0
