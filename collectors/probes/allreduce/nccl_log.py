"""NCCL's own log of the probe: the network between the nodes, GPU Direct RDMA, channels.

The log comes through the worker's own output (see ``remote/worker.py``) and is never written to a disk. Versions,
networks and devices are read by the parser of all logs; the lines of channels, which that one leaves out because a
job's log has thousands, are read here (``src/init.cc`` and ``src/transport/net.cc`` of NVIDIA/nccl, 2.10 to 2.30).
"""

from __future__ import annotations

import re

from collectors.fleet.clean import clean
from collectors.node.logs.parser import LogParser
from collectors.samples.logs import LogEvent

_OVER_NET = re.compile(rb"Channel \d{1,9}(?:/\d{1,9})? : [^\n]{0,300}? via NET/(?P<network>\w+)/\d+(?P<gdr>/GDRDMA)?")
_CHANNELS = re.compile(rb"NCCL INFO (?P<channels>\d+) coll channels")
_DIRECT = re.compile(rb"GPU Direct RDMA (?P<word>Enabled|Disabled) for")


def network_of(log: bytes) -> dict[str, str]:
    """Facts in one node's log, by the names of :class:`~collectors.samples.probes.ProbeReport`; empty for none."""
    parser = LogParser("probe")
    events = [*parser.feed(log), *parser.close()]
    paths = list(_OVER_NET.finditer(log))
    said = {
        "version": _last(events, "nccl.version", "version"),
        "network": _last(events, "nccl.network", "network"),
        "devices": _devices(events),
        "gdr": _direct(log, paths),
        "channels": _channels(log),
    }
    if not said["network"] and paths:
        said["network"] = paths[-1]["network"].decode()
    return {name: clean(value) for name, value in said.items() if value}


def _last(events: list[LogEvent], kind: str, field: str) -> str:
    """The last value; empty for none."""
    return next((str(event.data[field]) for event in reversed(events) if event.kind == kind), "")


def _devices(events: list[LogEvent]) -> str:
    listed = [event.data["devices"] for event in events if event.kind == "nccl.devices" and "devices" in event.data]
    return " ".join(map(str, listed[-1])) if listed and isinstance(listed[-1], list) else ""


def _direct(log: bytes, paths: list[re.Match[bytes]]) -> str:
    """Whether GPUs and network cards exchange data directly: by the channels, else by what NCCL found possible."""
    direct = sum(path["gdr"] is not None for path in paths)
    if paths:
        return "on" if direct == len(paths) else "off" if not direct else f"on {direct} of {len(paths)} channels"
    words = {match["word"] for match in _DIRECT.finditer(log)}
    return "" if not words else "on" if words == {b"Enabled"} else "off" if words == {b"Disabled"} else "on some cards"


def _channels(log: bytes) -> str:
    found = _CHANNELS.findall(log)
    return found[-1].decode() if found else ""
