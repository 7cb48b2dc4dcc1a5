"""What ``ibstat`` and ``perfquery`` print: adapters with their ports, and a block of counters for each port.

perfquery's counters are plain ones (32 bit and less, saturating) or, with ``-x``, extended ones.
"""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional

from collectors.samples.fabric import PortFacts

STATES = {"active": "ACTIVE", "initializing": "INIT", "armed": "ARMED", "down": "DOWN"}
"""ibstat's words for the state of a port → the kernel's."""

_ADAPTER = re.compile(r"CA '([^']{1,64})'")
_PORT_LINE = re.compile(r"Port (\d{1,3}):")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,3})?")


def parse_ibstat(text: str) -> List[PortFacts]:
    """Ports of every adapter. What a line does not say is unknown; lines of no meaning here are skipped."""
    ports: List[PortFacts] = []
    device = ""
    port: Optional[int] = None
    fields: Dict[str, str] = {}

    def close() -> None:
        if device and port is not None:
            ports.append(_ibstat_port(device, port, fields))

    for line in map(str.strip, text.splitlines()):
        opened = _ADAPTER.fullmatch(line)
        numbered = _PORT_LINE.fullmatch(line)
        if opened:
            close()
            device, port, fields = opened.group(1), None, {}
        elif numbered and device:
            close()
            port, fields = int(numbered.group(1)), {}
        else:
            key, _, value = line.partition(":")
            fields[key.lower()] = value.strip()
    close()
    return ports


def _ibstat_port(device: str, port: int, fields: Dict[str, str]) -> PortFacts:
    state = fields.get("state", "")
    rate = _NUMBER.match(fields.get("rate", ""))
    return PortFacts(
        device=device,
        port=port,
        link_layer=fields.get("link layer", ""),
        state=STATES.get(state.lower(), state.upper()),
        phys_state=fields.get("physical state", ""),
        rate=float(rate.group(0)) if rate else None,
        lid=_lid(fields.get("base lid", "")),
        netdev="",
    )


def _lid(text: str) -> Optional[int]:
    try:
        return int(text, 0)
    except ValueError:
        return None


WORDS = frozenset({"port_xmit_data", "port_rcv_data"})
"""Counters that count words of four bytes."""

_NAMES = {
    "portxmitdata": "port_xmit_data",
    "portrcvdata": "port_rcv_data",
    "xmtdata": "port_xmit_data",
    "rcvdata": "port_rcv_data",
    "xmtbytes": "port_xmit_data",
    "rcvbytes": "port_rcv_data",
    "portxmitpkts": "port_xmit_packets",
    "portrcvpkts": "port_rcv_packets",
    "xmtpkts": "port_xmit_packets",
    "rcvpkts": "port_rcv_packets",
    "portunicastxmitpkts": "unicast_xmit_packets",
    "portunicastrcvpkts": "unicast_rcv_packets",
    "portmulticastxmitpkts": "multicast_xmit_packets",
    "portmulticastrcvpkts": "multicast_rcv_packets",
    "symbolerrorcounter": "symbol_error",
    "symbolerrors": "symbol_error",
    "linkerrorrecoverycounter": "link_error_recovery",
    "linkrecovers": "link_error_recovery",
    "linkdownedcounter": "link_downed",
    "linkdowned": "link_downed",
    "portrcverrors": "port_rcv_errors",
    "rcverrors": "port_rcv_errors",
    "portrcvremotephysicalerrors": "port_rcv_remote_physical_errors",
    "rcvremotephyserrors": "port_rcv_remote_physical_errors",
    "portrcvswitchrelayerrors": "port_rcv_switch_relay_errors",
    "rcvswrelayerrors": "port_rcv_switch_relay_errors",
    "portxmitdiscards": "port_xmit_discards",
    "xmtdiscards": "port_xmit_discards",
    "portxmitconstrainterrors": "port_xmit_constraint_errors",
    "xmtconstrainterrors": "port_xmit_constraint_errors",
    "portrcvconstrainterrors": "port_rcv_constraint_errors",
    "rcvconstrainterrors": "port_rcv_constraint_errors",
    "locallinkintegrityerrors": "local_link_integrity_errors",
    "linkintegrityerrors": "local_link_integrity_errors",
    "excessivebufferoverrunerrors": "excessive_buffer_overrun_errors",
    "excbufoverrunerrors": "excessive_buffer_overrun_errors",
    "vl15dropped": "vl15_dropped",
    "portxmitwait": "port_xmit_wait",
    "qp1dropped": "qp1_dropped",
}
"""perfquery's name of a counter, lower case, of this and of earlier decades → the kernel's."""

_HEADER = re.compile(r"# (Port [\w ]{0,40}?counters): (?:Lid (\d{1,9})|.{1,200}?) port (\d{1,3})", re.IGNORECASE)
_COUNTER = re.compile(r"(\w{2,64}):\.*(0x[0-9a-fA-F]{1,16}|\d{1,20})")
_SATURATED = (1 << 32) - 1
LARGEST = (1 << 63) - 1
"""Counters of 64 bits that stick at all ones are told as this: what reads them takes signed numbers."""


class PortBlock(NamedTuple):
    """Counters of one port by the kernel's names; data in bytes. ``extended``: 64 bit."""

    lid: Optional[int]
    port: int
    extended: bool
    values: Dict[str, int]


def parse_perfquery(text: str) -> List[PortBlock]:
    """Blocks in order. A saturated 32-bit data counter is left out: it stands still while data flow."""
    blocks: List[PortBlock] = []
    for line in text.splitlines():
        opened = _HEADER.match(line)
        if opened:
            lid = opened.group(2)
            extended = "extended" in opened.group(1).lower()
            blocks.append(PortBlock(None if lid is None else int(lid[:9]), int(opened.group(3)[:9]), extended, {}))
            continue
        counter = _COUNTER.match(line)
        if not counter or not blocks:
            continue
        name = _NAMES.get(counter.group(1).lower())
        digits = counter.group(2)
        value = min(int(digits[:24], 16 if digits.startswith("0x") else 10), LARGEST)
        if name is None or (name in WORDS and not blocks[-1].extended and value >= _SATURATED):
            continue
        blocks[-1].values[name] = min(value * 4, LARGEST) if name in WORDS else value
    return [block for block in blocks if block.values]
