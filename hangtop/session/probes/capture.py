"""Packet captures of a session's nodes: what is captured where, and the files that came of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from collectors.probes.capture import Captured, CaptureNode, capture, describe
from hangtop.diagnosis.addresses import address_of, chosen_interface
from hangtop.diagnosis.phrasing import count, size
from hangtop.session.probes import Probe, ProbeRefused, ProbeResult, ProbeSession, Say, nodes_of, text_lines

EFFECT = "The headers of their packets are copied and sent here meanwhile."


def capture_probe(session: ProbeSession, folder: Path, *, seconds: float, most: int, sudo: bool) -> Probe:
    """Capture headers into ``folder``, ``most`` bytes a node at most; with ``sudo``, through ``sudo -n``."""
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
        return result([*captures, *(Captured(node, "", 0, why) for node, why in absent.items())])

    brief = (
        f"{count(len(nodes), 'node')}, packet headers for {seconds:g} s, at most {most / 1e6:g} MB each, sends nothing"
    )
    command = "\n".join(describe(nodes, seconds, sudo=sudo))
    return Probe("Capture packets", brief, command, run, EFFECT, tuple(node.name for node in there))


def result(captures: Sequence[Captured]) -> ProbeResult:
    """Where the files are, and why there are none."""
    failed = [one for one in captures if not one.file]
    summary = f"{count(len(captures), 'capture')}, for Wireshark or tcpdump -r"
    if failed or not captures:
        names = ", ".join(one.node for one in failed) or "any node"
        summary = f"no capture on {names}" + (f": {failed[0].why}" if failed else "")
    lines = [
        f"{one.node:<20}{f'{one.file}  {size(one.bytes)}' if one.file else f'no capture: {one.why}'}"
        for one in captures
    ]
    figures = {"backend": "tcpdump", "captures": [one._asdict() for one in captures]}
    outcome = "failed" if failed or not captures else "ok"
    return ProbeResult("Packet capture", outcome, summary, text_lines(lines), figures)
