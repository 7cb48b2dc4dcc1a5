"""Parsing of the InfiniBand tools' output.

Formats: rdma-core's libibverbs/examples/devinfo.c, infiniband-diags/ibtracert.c and ibping.c; perftest's
src/perftest_parameters.h (RESULT_FMT_G and REPORT_FMT: the unit stands in the heading, figures below it).
"""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Tuple

_FIELD = re.compile(r"^\s*([a-z_]+):\s*(.*?)\s*$")
_BANDWIDTH = re.compile(r"^\s*(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)")
_HOP = re.compile(r"^\[(\d+)\] -> (?:(\S+) port )?\{(0x[0-9a-fA-F]+)\}\[(\d+)\](?: lid (\d+)-\d+ \"(.*)\")?")
_SENT = re.compile(r"(\d{1,9}) packets transmitted, (\d{1,9}) (?:packets )?received")
_TIMES = re.compile(r"(?:rtt|round-trip) min/avg/max(?:/mdev)? = [\d.]{1,20}/(\d{1,12}(?:\.\d{1,9})?)/")
_UNITS = {"MiB/sec": 8 * 1.048576e-3, "MB/sec": 8 * 1.048576e-3, "Gb/sec": 1.0}
"""To Gb/s. perftest's MB are 2**20 bytes: older releases say MB/sec, newer MiB/sec for the same figure."""


class IbPort(NamedTuple):
    """One port as ibv_devinfo shows it."""

    device: str
    port: int
    state: str
    """``PORT_ACTIVE``, ``PORT_INIT``, ``PORT_ARMED``, ``PORT_DOWN``."""
    max_mtu: Optional[int]
    active_mtu: Optional[int]
    sm_lid: Optional[int]
    lid: Optional[int]
    link_layer: str
    """``InfiniBand`` or ``Ethernet`` (RoCE)."""


def parse_devinfo(said: str) -> List[IbPort]:
    """Every port of every adapter that ibv_devinfo lists."""
    found: List[IbPort] = []
    device = ""
    fields: Dict[str, str] = {}

    def close() -> None:
        if device and "port" in fields:
            found.append(_port(device, fields))

    for line in said.splitlines():
        match = _FIELD.match(line)
        if match is None:
            continue
        name, value = match.groups()
        if name in ("hca_id", "port"):
            close()
            fields = {}
        if name == "hca_id":
            device = value
        else:
            fields[name] = value
    close()
    return found


def _port(device: str, fields: Dict[str, str]) -> IbPort:
    state = fields.get("state", "").partition(" ")[0]
    return IbPort(
        device, _number(fields, "port") or 0, state, _number(fields, "max_mtu"), _number(fields, "active_mtu"),
        _number(fields, "sm_lid"), _number(fields, "port_lid"), fields.get("link_layer", ""),
    )  # fmt: skip


def _number(fields: Dict[str, str], name: str) -> Optional[int]:
    word = fields.get(name, "").partition(" ")[0]
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else None


def parse_bandwidth(said: str) -> Optional[Tuple[int, int, float]]:
    """(bytes of a message, messages, average Gb/s) of ib_write_bw or ib_send_bw; None where it printed no result."""
    factor: Optional[float] = None
    for line in said.splitlines():
        if "#bytes" in line:
            # The heading's second unit is the average's.
            units = re.findall(r"\[([^\[\]]{1,40})\]", line)
            factor = _UNITS.get(units[1]) if len(units) > 1 else None
        elif factor is not None:
            row = _BANDWIDTH.match(line)
            if row is not None and len(row.group(1)) < 16 and len(row.group(2)) < 16:
                try:
                    return int(row.group(1)), int(row.group(2)), float(row.group(4)) * factor
                except ValueError:  # 1.2.3
                    return None
    return None


def parse_route(said: str) -> List[str]:
    """The ports on the way, as ibtracert prints them: ``switch "leaf3" 0x…[12]``; the last is the other end."""
    hops = []
    for line in said.splitlines():
        match = _HOP.match(line)
        if match is not None:
            _, kind, guid, port, lid, name = match.groups()
            named = ' "%s"' % name if name else ""
            where = " lid %s" % lid if lid else ""
            hops.append("%s%s %s[%s]%s" % (kind or "port", named, guid, port, where))
    return hops


def parse_ping(said: str) -> Optional[Tuple[int, int, Optional[float]]]:
    """(sent, received, mean milliseconds) of ibping's summary; None where there is none."""
    counts, times = _SENT.search(said), _TIMES.search(said)
    if counts is None:
        return None
    return int(counts.group(1)), int(counts.group(2)), float(times.group(1)) if times else None
