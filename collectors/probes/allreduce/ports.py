"""The ports of a node that a rank can be bound to: interfaces for gloo and NCCL's sockets, HCA ports for NCCL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class LocalPort:
    """One of them. ``address`` and ``network`` (``10.0.0.0/24``) are an interface's, empty for an HCA's port."""

    name: str
    """``eth1``, ``mlx5_0/1``."""
    kind: Literal["interface", "hca"]
    address: str = ""
    network: str = ""

    def binding(self, backend: str) -> dict[str, str]:
        """Environment that has a rank use this port alone: NCCL takes names exactly after ``=``, gloo always does."""
        if self.kind == "hca":
            return {"NCCL_IB_HCA": "=" + self.name.replace("/", ":")}
        return {"NCCL_SOCKET_IFNAME": f"={self.name}"} if backend == "nccl" else {"GLOO_SOCKET_IFNAME": self.name}


def facing(mine: Sequence[LocalPort], others: Sequence[LocalPort]) -> list[tuple[LocalPort, LocalPort]]:
    """Each port with the one of another node that it can be measured against; those without one are left out.

    An interface needs one in the same network. An HCA's port is tried with that of the same name, which is on the same
    rail where there are rails, else with the first.
    """
    found = []
    for port in mine:
        alike = [other for other in others if other.kind == port.kind]
        if port.kind == "interface":
            alike = [other for other in alike if other.network == port.network]
        if alike:
            found.append((port, next((other for other in alike if other.name == port.name), alike[0])))
    return found


def used(ports: Sequence[LocalPort], backend: str, said: dict[str, str]) -> list[LocalPort]:
    """Those that the collectives go through, by what NCCL's log said of its network and devices (``nccl_log``).

    NCCL uses HCAs where it can, and sockets when it says so or where there are none.
    """
    cards = [port for port in ports if port.kind == "hca"]
    if backend != "nccl" or not cards or said.get("network", "").lower().startswith("socket"):
        return [port for port in ports if port.kind == "interface"]
    listed = {device.partition("/")[0].replace(":", "/") for device in said.get("devices", "").split()}
    return [port for port in cards if port.name in listed] or cards
