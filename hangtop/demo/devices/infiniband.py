"""A simulated InfiniBand port for perfquery: traffic follows the kernels that its GPU has finished."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hangtop.demo.devices.state import DeviceFolder

BYTES_PER_SECOND = 14_000_000_000
"""Traffic while the GPU's rank works; a stuck rank finishes no kernel and sends nothing."""
PACKET = 4096
ALWAYS_ZERO = (
    "PortMulticastXmitPkts", "PortMulticastRcvPkts", "SymbolErrorCounter", "LinkErrorRecoveryCounter", "PortRcvErrors",
    "PortRcvRemotePhysicalErrors", "PortRcvSwitchRelayErrors", "PortXmitDiscards", "PortXmitConstraintErrors",
    "PortRcvConstraintErrors", "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors", "VL15Dropped",
)  # fmt: skip


def device(port: int) -> str:
    """Name of the adapter of a port; each port has its own adapter."""
    return f"mlx5_{port}"


def is_up(node: DeviceFolder, port: int) -> bool:
    """False while the port is down by a planted fault."""
    return f"port{port} down" not in node.faults()


def counters(node: DeviceFolder, port: int) -> dict[str, int]:
    """Counters by perfquery's names; data in units of four bytes."""
    sent = int(node.use(port % max(1, node.hardware["gpus"])).busy_before * BYTES_PER_SECOND)
    return {
        "PortXmitData": sent // 4,
        "PortRcvData": sent // 4,
        "PortXmitPkts": sent // PACKET,
        "PortRcvPkts": sent // PACKET,
        "PortUnicastXmitPkts": sent // PACKET,
        "PortUnicastRcvPkts": sent // PACKET,
        "LinkDownedCounter": 0,
        **dict.fromkeys(ALWAYS_ZERO, 0),
        "PortXmitWait": sent // 1_000_000,
    }


def perfquery(arguments: Sequence[str]) -> int:
    """Print one port's extended counters (``-C ADAPTER``) and return the exit status."""
    node = DeviceFolder()
    adapter = arguments[arguments.index("-C") + 1] if "-C" in arguments[:-1] else device(0)
    found = [port for port in range(node.hardware["ports"]) if device(port) == adapter]
    if not found or not is_up(node, found[0]):
        sys.stderr.write("perfquery: iberror: failed: can't resolve self port\n")
        return 1
    sys.stdout.write(f"# Port extended counters: Lid {100 + found[0]} port 1 (CapMask: 0x5300)\nPortSelect:......1\n")
    for name, value in counters(node, found[0]).items():
        sys.stdout.write(f"{name}:{'.' * (32 - len(name))}{value}\n")
    return 0
