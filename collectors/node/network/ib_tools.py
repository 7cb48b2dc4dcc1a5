"""What ``ibstat`` and ``perfquery -x`` print: adapters with their ports, and the counters of a port."""

from __future__ import annotations

import re
from typing import Dict, List

from collectors.samples.fabric import PortFacts

STATES = {"active": "ACTIVE", "initializing": "INIT", "armed": "ARMED", "down": "DOWN"}
"""ibstat's words for the state of a port → the kernel's."""
WORDS = frozenset({"port_xmit_data", "port_rcv_data"})
"""Counters that count words of four bytes."""
LARGEST = (1 << 63) - 1
"""Counters of 64 bits that stick at all ones are told as this: what reads them takes signed numbers."""

_ADAPTER = re.compile(r"CA '([^']{1,64})'")
_PORT_LINE = re.compile(r"Port (\d{1,3}):")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,3})?")
_COUNTER = re.compile(r"(\w{2,64}):\.*(0x[0-9a-fA-F]{1,16}|\d{1,20})")
_NEXT_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def parse_ibstat(text: str) -> List[PortFacts]:
    """Ports of every adapter. What a line does not say is unknown; lines of no meaning here are skipped."""
    found: List[Dict[str, str]] = []
    device = ""
    for line in map(str.strip, text.splitlines()):
        opened, numbered = _ADAPTER.fullmatch(line), _PORT_LINE.fullmatch(line)
        if opened:
            device = opened.group(1)
            fields: Dict[str, str] = {}
        elif numbered and device:
            fields = {"device": device, "port": numbered.group(1)}
            found.append(fields)
        elif device:
            key, _, value = line.partition(":")
            fields.setdefault(key.lower(), value.strip())
    return [_port(fields) for fields in found]


def _port(fields: Dict[str, str]) -> PortFacts:
    state = fields.get("state", "")
    rate = _NUMBER.match(fields.get("rate", ""))
    lid = fields.get("base lid", "")
    return PortFacts(
        device=fields["device"],
        port=int(fields["port"]),
        link_layer=fields.get("link layer", ""),
        state=STATES.get(state.lower(), state.upper()),
        phys_state=fields.get("physical state", ""),
        rate=float(rate.group(0)) if rate else None,
        lid=int(lid) if lid.isdecimal() and len(lid) < 10 else None,
    )


def parse_perfquery(text: str) -> Dict[str, int]:
    """Extended counters (``perfquery -x``) of the first port that is shown, by the kernel's names; data in bytes."""
    values: Dict[str, int] = {}
    shown = 0
    for line in text.splitlines():
        counter = _COUNTER.match(line)
        shown += line.startswith("# Port extended counters: ")
        if counter and shown == 1 and "Select" not in line:
            name, digits = kernel_name(counter.group(1)), counter.group(2)
            value = int(digits, 16 if digits.startswith("0x") else 10)
            values[name] = min(value * 4 if name in WORDS else value, LARGEST)
    return values


def kernel_name(name: str) -> str:
    """Perfquery's name of a counter as the kernel has it: ``SymbolErrorCounter`` is ``symbol_error``."""
    words = _NEXT_WORD.sub("_", name).lower().split("_")
    return "_".join("packets" if word == "pkts" else word for word in words if word != "counter")
