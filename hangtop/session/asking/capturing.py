"""Packet captures of a session's nodes: what to capture where, and what the files say."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from collectors.fleet.transport import TransportError
from collectors.formats.pcap import segments
from collectors.formats.tcp_flows import Flow, flows
from collectors.probes.capture.run import Captured, CaptureNode
from hangtop.diagnosis.addresses import address_of, chosen_interface
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured.captured import CapturedTraffic
from hangtop.diagnosis.phrasing import count, size
from hangtop.session.asking.probing import Connections

ROWS = 40
"""Directions that people are shown; scripts get all."""


def capture_nodes(session: Connections, job: Job) -> tuple[list[CaptureNode], dict[str, str]]:
    """Nodes to capture on, and why the others cannot take part."""
    addresses = {name: address_of(job, node) for name, node in sorted(job.nodes.items())}
    ports = {rank.process.master_port for rank in job.ranks if rank.gone_at is None} - {None}
    port = next(iter(ports)) if len(ports) == 1 else None
    found, absent = [], {}
    for name, node in sorted(job.nodes.items()):
        others = tuple(address for other, address in addresses.items() if other != name)
        try:
            transport, python = session.transport(name), session.python(name)
        except TransportError as error:
            absent[name] = node.why or str(error)
            continue
        found.append(CaptureNode(name, transport, python, chosen_interface(job, node) or "", others, port))
    return found, absent


def names_by_address(job: Job) -> dict[str, str]:
    """Node by each address of its interfaces."""
    return {
        address.partition("/")[0]: name
        for name, node in job.nodes.items()
        for interface in node.network.interfaces
        if interface.kind != "loopback"
        for address in interface.addresses
    }


async def read(captures: Sequence[Captured], names: Mapping[str, str]) -> list[CapturedTraffic]:
    """Count what the files hold, one after the other and beside the event loop. Raises :class:`OSError`."""
    found: list[CapturedTraffic] = []
    for one in captures:
        if one.path is not None:
            found += await asyncio.to_thread(_read, one.node, one.path, names)
    return found


def _read(node: str, path: Path, names: Mapping[str, str]) -> list[CapturedTraffic]:
    with path.open("rb") as file:
        return traffic(node, list(flows(segments(file)).values()), names)


def traffic(node: str, found: Sequence[Flow], names: Mapping[str, str]) -> list[CapturedTraffic]:
    """Flows put together by direction, those with the most bytes first."""
    directions: dict[tuple[str, str], list[Flow]] = defaultdict(list)
    for flow in found:
        source, _, target, _ = flow.key
        directions[names.get(source, source), names.get(target, target)].append(flow)
    rows = [
        CapturedTraffic(
            node, source, target, len(some), sum(flow.segments for flow in some), sum(flow.size for flow in some),
            sum(flow.again for flow in some), sum(flow.again_size for flow in some), sum(flow.late for flow in some),
            source == node,
        )
        for (source, target), some in directions.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row.size)


def lines(captures: Sequence[Captured], traffic: Sequence[CapturedTraffic]) -> Iterator[str]:
    """The captures and what was sent again, as people read it."""
    for one in captures:
        if one.path is None:
            yield f"{one.node:<20}no capture: {one.why}"
        else:
            dropped = f", {one.dropped} dropped for want of room" if one.dropped else ""
            packets = "" if one.packets is None else f", {count(one.packets, 'packet')}"
            yield f"{one.node:<20}{one.path}  {size(one.size)}{packets}{dropped}"
    heads = f"{'flows':>6}{'segments':>10}{'payload':>10}{'again':>8}{'late':>7}{'share':>8}"
    yield f"\n{'seen on':<16}{'from → to':<40}{heads}"
    for row in traffic[:ROWS]:
        way = f"{row.source} → {row.target}"
        share = f"{row.share:.2%}" if row.sent_here else "–"
        yield (
            f"{row.node:<16}{way:<40}{row.flows:>6}{row.segments:>10}{size(row.size):>10}{row.again:>8}{row.late:>7}"
            f"{share:>8}"
        )
    if len(traffic) > ROWS:
        yield f"… and {len(traffic) - ROWS} more (--json has all)"
