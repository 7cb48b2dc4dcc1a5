"""What rdma-core's and OFED's tools print of ports: ``ibv_devinfo``, ``ibstatus``, ``ibdev2netdev``, ``ibportstate``.

``ibv_devinfo``: ``hca_id: mlx5_0``, below it ``port: 1`` with ``state: PORT_DOWN (1)``; ``ibstatus``: ``Infiniband
device 'mlx5_0' port 1 status:`` with ``state: 1: DOWN``, ``phys state: 3: Disabled``; ``ibdev2netdev``:
``mlx5_0 port 1 ==> ib0 (Down)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.samples.fabric import PortFacts

_ADAPTER = re.compile(r"^\s{0,4}hca_id:\s{1,16}(?P<device>[\w-]{1,64})\s{0,4}$")
_PORT = re.compile(r"^\s{1,32}port:\s{1,16}(?P<port>\d{1,3})\s{0,4}$")
_STATUS = re.compile(r"^\s{0,4}Infiniband device '(?P<device>[\w-]{1,64})' port (?P<port>\d{1,3}) status:")
_NETDEV = re.compile(
    r"^\s{0,4}(?P<device>[\w-]{1,64}) port (?P<port>\d{1,3}) ==> (?P<netdev>\S{1,32}) \((?P<state>Up|Down)\)"
)
_DOTTED = re.compile(r"^# Port info: Lid (?P<lid>\d{1,6}) port (?P<port>\d{1,3})")
_DOTTED_FIELD = re.compile(r"^(?P<name>LinkState|PhysLinkState|SMLid):\.{1,60}(?P<value>[A-Za-z0-9]{1,20})\s{0,4}$")
_DOTTED_NAMES = {"LinkState": "state", "PhysLinkState": "phys state", "SMLid": "sm lid"}
_FIELD = re.compile(
    r"^\s{1,32}(?P<name>state|phys[ _]state|link_layer|sm[ _]lid|port_lid|base lid|fw_ver|rate):\s{1,32}"
                    r"(?P<value>\S[^\r\n]{0,100})$")  # fmt: skip
_STATES = {
    "PORT_ACTIVE": "ACTIVE",
    "PORT_DOWN": "DOWN",
    "PORT_INIT": "INIT",
    "PORT_ARMED": "ARMED",
    "Initialize": "INIT",
}
_RATE = re.compile(r"\d{1,6}(?:\.\d{1,3})?")


def looks_like(head: str) -> bool:
    """Whether a text that begins so is one of these tools'."""
    first = next((line for line in head.splitlines() if line.strip()), "")
    return any(pattern.match(first) for pattern in (_ADAPTER, _STATUS, _NETDEV, _DOTTED))


def parse(text: str) -> list[PortFacts]:
    """The ports. What is not said is unknown; lines of no meaning here are skipped."""
    found: list[tuple[str, int, dict[str, str]]] = []
    device = ""
    adapter: dict[str, str] = {}
    for line in text.splitlines():
        opened, port, status, netdev, dotted = (p.match(line) for p in (_ADAPTER, _PORT, _STATUS, _NETDEV, _DOTTED))
        if opened is not None:
            device, adapter = opened.group("device"), {}
        elif port is not None and device:
            found.append((device, int(port.group("port")), dict(adapter)))
        elif status is not None:
            found.append((status.group("device"), int(status.group("port")), {}))
        elif netdev is not None:
            fields = {"netdev": netdev.group("netdev"), "state": "ACTIVE" if netdev.group("state") == "Up" else "DOWN"}
            found.append((netdev.group("device"), int(netdev.group("port")), fields))
        elif dotted is not None:
            found.append((f"lid{dotted.group('lid')}", int(dotted.group("port")), {}))
        else:
            told = _DOTTED_FIELD.match(line)
            if told is not None and found:
                found[-1][2][_DOTTED_NAMES[told.group("name")]] = told.group("value")
            field = _FIELD.match(line)
            if field is not None:
                of = found[-1][2] if found and found[-1][0] == (device or found[-1][0]) else adapter
                of[field.group("name").replace("_", " ")] = field.group("value").strip()
    return list(_facts(found))


def _facts(found: list[tuple[str, int, dict[str, str]]]) -> Iterator[PortFacts]:
    for device, port, fields in found:
        state = fields.get("state", "").rpartition(": ")[2].partition(" ")[0]
        rate = _RATE.match(fields.get("rate", ""))
        yield PortFacts(
            device=device, port=port, link_layer=fields.get("link layer", ""), state=_STATES.get(state, state.upper()),
            phys_state=fields.get("phys state", "").rpartition(": ")[2].partition(" ")[0],
            rate=float(rate.group()) if rate else None, rate_text=fields.get("rate", ""),
            lid=_lid(fields.get("port lid", "") or fields.get("base lid", "")),
            sm_lid=_lid(fields.get("sm lid", "")), netdev=fields.get("netdev", ""), firmware=fields.get("fw ver", ""),
            board="",
        )  # fmt: skip


def _lid(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None
