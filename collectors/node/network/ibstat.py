"""What ``ibstat`` prints: adapters, and under each its ports."""

from __future__ import annotations

import re
from typing import Dict, List, Optional

from collectors.samples.fabric import PortFacts

STATES = {"active": "ACTIVE", "initializing": "INIT", "armed": "ARMED", "down": "DOWN"}
"""ibstat's words for the state of a port → the kernel's."""

_ADAPTER = re.compile(r"CA '([^']{1,64})'")
_PORT = re.compile(r"Port (\d{1,3}):")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,3})?")


def parse(text: str) -> List[PortFacts]:
    """Ports of every adapter. What a line does not say is unknown; lines of no meaning here are skipped."""
    ports: List[PortFacts] = []
    device = ""
    adapter: Dict[str, str] = {}
    port: Optional[int] = None
    fields: Dict[str, str] = {}

    def close() -> None:
        if device and port is not None:
            ports.append(_facts(device, port, adapter, fields))

    for line in map(str.strip, text.splitlines()):
        opened = _ADAPTER.fullmatch(line)
        numbered = _PORT.fullmatch(line)
        if opened:
            close()
            device, port, adapter, fields = opened.group(1), None, {}, {}
        elif numbered and device:
            close()
            port, fields = int(numbered.group(1)), {}
        else:
            key, _, value = line.partition(":")
            (adapter if port is None else fields)[key.lower()] = value.strip()
    close()
    return ports


def _facts(device: str, port: int, adapter: Dict[str, str], fields: Dict[str, str]) -> PortFacts:
    state = fields.get("state", "")
    rate = _NUMBER.match(fields.get("rate", ""))
    return PortFacts(
        device=device,
        port=port,
        link_layer=fields.get("link layer", ""),
        state=STATES.get(state.lower(), state.upper()),
        phys_state=fields.get("physical state", ""),
        rate=float(rate.group(0)) if rate else None,
        rate_text=fields.get("rate", ""),
        lid=_lid(fields.get("base lid", "")),
        sm_lid=_lid(fields.get("sm lid", "")),
        netdev="",
        firmware=adapter.get("firmware version", ""),
        board=adapter.get("ca type", ""),
    )


def _lid(text: str) -> Optional[int]:
    try:
        return int(text, 0)
    except ValueError:
        return None
