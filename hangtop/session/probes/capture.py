"""Packet captures of a session's nodes: what is captured where, and the files that came of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from collectors.probes.capture import Captured, CaptureNode, capture, describe
from hangtop.diagnosis.addresses import address_of, chosen_interface
from hangtop.diagnosis.phrasing import count, size
from hangtop.session.probes import Probe, ProbeRefused, ProbeResult, ProbeSession, Say, nodes_of, text_lines

EFFECT = "The headers of their packets are copied and sent here meanwhile."


def capture_probe(session: ProbeSession, folder: Path, *, seconds: float, most: int, sudo: bool) -> Probe:
    """Capture headers into ``folder``, ``most`` bytes a node at most; with ``sudo``, ``sudo -n`` may be tried."""
    job = session.job()
    there, absent = nodes_of(session, job)
    addresses = {name: address_of(job, node) for name, node in sorted(job.nodes.items())}
    ports = {rank.process.master_port for rank in job.ranks if rank.gone_at is None} - {None}
    port = next(iter(ports)) if len(ports) == 1 else None
    nodes = [
        CaptureNode(
            node, chosen_interface(job, job.nodes[node.name]) or "",
            tuple(address for other, address in addresses.items() if other != node.name), port,
        )
        for node in there
    ]  # fmt: skip

    async def run(say: Say) -> ProbeResult:
        say(f"capturing on {count(len(nodes), 'node')} for {seconds:g} s")
        name = time.strftime("capture-%Y%m%d-%H%M%S")
        try:
            captures = await capture(nodes, folder, name, seconds=seconds, most=most, sudo=sudo)
        except OSError as error:
            raise ProbeRefused(f"{folder}: the capture cannot be written: {error.strerror or error}") from None
        return result([*captures, *(Captured(node, None, 0, None, None, why) for node, why in absent.items())])

    brief = (
        f"{count(len(nodes), 'node')}, packet headers for {seconds:g} s, at most {most / 1e6:g} MB each, sends nothing"
    )
    command = "\n".join(describe(nodes, seconds, most, sudo=sudo)) if nodes else ""
    return Probe("Capture packets", brief, command, run, EFFECT, tuple(node.name for node in there))


def result(captures: Sequence[Captured]) -> ProbeResult:
    """Where the files are, and why there are none."""
    failed = [one for one in captures if one.path is None]
    summary = f"{count(len(captures), 'capture')}, for Wireshark or tcpdump -r"
    if failed or not captures:
        names = ", ".join(one.node for one in failed) or "any node"
        summary = f"no capture on {names}" + (f": {failed[0].why}" if failed else "")
    rows = [
        {
            "node": one.node, "file": str(one.path) if one.path else None, "bytes": one.size, "packets": one.packets,
            "dropped_by_kernel": one.dropped, "why": one.why,
        }
        for one in captures
    ]  # fmt: skip
    outcome = "failed" if failed or not captures else "ok"
    figures = {"backend": "tcpdump", "captures": rows}
    return ProbeResult("Packet capture", outcome, summary, text_lines(_lines(captures)), figures)


def _lines(captures: Sequence[Captured]) -> Iterator[str]:
    for one in captures:
        if one.path is None:
            yield f"{one.node:<20}no capture: {one.why}"
        else:
            dropped = f", {one.dropped} dropped for want of room" if one.dropped else ""
            packets = "" if one.packets is None else f", {count(one.packets, 'packet')}"
            yield f"{one.node:<20}{one.path}  {size(one.size)}{packets}{dropped}"
