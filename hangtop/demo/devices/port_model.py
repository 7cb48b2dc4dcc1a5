"""A simulated InfiniBand port: what crosses it follows the kernels that the GPU beside it has finished."""

from __future__ import annotations

from hangtop.demo.devices.state import DeviceFolder

BYTES_PER_SECOND = 14_000_000_000
"""Traffic while the GPU's rank works; a rank that is stuck finishes no kernel and sends nothing."""
PACKET = 4096
FLAP_PERIOD, FLAP_DOWN = 5.0, 2.0
"""A flapping port goes down once a period, for so many seconds."""


def device(port: int) -> str:
    """Name of the adapter of a port; each has one."""
    return f"mlx5_{port}"


def is_up(node: DeviceFolder, port: int) -> bool:
    """False while a planted fault holds it down."""
    faults = node.faults()
    flapping = faults.get(f"port{port} flapping")
    return f"port{port} down" not in faults and (flapping is None or flapping % FLAP_PERIOD >= FLAP_DOWN)


def counters(node: DeviceFolder, port: int) -> dict[str, int]:
    """Counters by perfquery's names; data in words of four bytes."""
    faults = node.faults()
    sent = int(node.use(port % max(1, node.hardware["gpus"])).busy_before * BYTES_PER_SECOND)
    downs = faults.get(f"port{port} flapping")
    return {
        "PortXmitData": sent // 4,
        "PortRcvData": sent // 4,
        "PortXmitPkts": sent // PACKET,
        "PortRcvPkts": sent // PACKET,
        "PortUnicastXmitPkts": sent // PACKET,
        "PortUnicastRcvPkts": sent // PACKET,
        "PortMulticastXmitPkts": 0,
        "PortMulticastRcvPkts": 0,
        "SymbolErrorCounter": int(7 * faults.get(f"port{port} symbol", 0.0)),
        "LinkErrorRecoveryCounter": 0,
        "LinkDownedCounter": 0 if downs is None else 1 + int(downs / FLAP_PERIOD),
        "PortRcvErrors": 0,
        "PortRcvRemotePhysicalErrors": 0,
        "PortRcvSwitchRelayErrors": 0,
        "PortXmitDiscards": int(40 * faults.get(f"port{port} discards", 0.0)),
        "PortXmitConstraintErrors": 0,
        "PortRcvConstraintErrors": 0,
        "LocalLinkIntegrityErrors": 0,
        "ExcessiveBufferOverrunErrors": 0,
        "VL15Dropped": 0,
        "PortXmitWait": sent // 1_000_000,
    }
