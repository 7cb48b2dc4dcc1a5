"""Packet captures: tcpdump on all nodes at once, and the resulting files."""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from collectors.fleet.transport import TransportError
from collectors.probes.running import Limits, NodeAccess, Running
from hangtop.diagnosis.addresses import address_of, chosen_interface
from hangtop.diagnosis.phrasing import count, size
from hangtop.session.probes import Probe, ProbeRefused, ProbeResult, Say, nodes_of, table
from hangtop.session.session import Session

SNAPLEN = 128
"""Bytes captured of each packet: headers only, so that no data of the job leaves its node."""
SLACK_SECONDS = 20.0
NAMED_PEERS = 32
"""Peers that a filter names; with more peers, all TCP except SSH is captured."""
MOST = 64 << 20
"""Bytes of one node's capture."""


def capture_probe(session: Session, folder: Path, *, seconds: float) -> Probe:
    """Capture packet headers into ``folder``; with --sudo, by ``sudo -n``."""
    job = session.job()
    there, absent = nodes_of(session, job)
    addresses = {name: address_of(job, node) for name, node in sorted(job.nodes.items())}
    words = {}
    for node in there:
        peers = [address for other, address in addresses.items() if other != node.name]
        interface = chosen_interface(job, job.nodes[node.name]) or ""
        words[node.name] = tcpdump(interface, peers, seconds, sudo=session.options.sudo)

    async def one(node: NodeAccess, path: Path) -> dict[str, Any]:
        with path.open("wb") as file:
            why = await capture(node, words[node.name], file, seconds, MOST)
            taken = file.tell()
        if not taken:
            await asyncio.to_thread(path.unlink)
        saved = {"file": str(path), "bytes": taken, "why": ""} if taken else {"file": "", "bytes": 0, "why": why}
        return {"node": node.name, **saved}

    async def run(say: Say) -> ProbeResult:
        say(f"capturing on {count(len(there), 'node')} for {seconds:g} s")
        start = str(folder / time.strftime("capture-%Y%m%d-%H%M%S-"))
        paths = [Path(start + re.sub(r"[^A-Za-z0-9._-]+", "_", node.name) + ".pcap") for node in there]
        try:
            await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
            captures = await asyncio.gather(*map(one, there, paths))
        except OSError as error:
            raise ProbeRefused(f"{folder}: the capture cannot be written: {error.strerror or error}") from None
        return result(
            [*captures, *({"node": name, "file": "", "bytes": 0, "why": why} for name, why in absent.items())]
        )

    brief = f"{count(len(there), 'node')}, packet headers for {seconds:g} s, at most {MOST >> 20} MB each"
    command = "\n".join(f"on {name}: {shlex.join(some)}" for name, some in words.items())
    effect = "The headers of their packets are copied and sent here meanwhile."
    return Probe("Capture packets", f"{brief}, sends nothing", command, run, effect, tuple(words))


def tcpdump(interface: str, peers: Sequence[str], seconds: float, *, sudo: bool) -> list[str]:
    """The command: no name lookups, no promiscuous mode, headers only, each packet to standard output at once.

    It captures TCP with ``peers`` except SSH; without an interface, tcpdump chooses one. ``timeout`` ends it even if
    the connection is cut.
    """
    wanted = " or ".join(f"host {address}" for address in peers if len(peers) <= NAMED_PEERS)
    packets = "tcp and not port 22" + (f" and ({wanted})" if wanted else "")
    start = [*(["sudo", "-n"] if sudo else []), "timeout", "-s", "INT", f"{seconds:g}", "tcpdump"]
    where = ["-i", interface] if interface else []
    return [*start, *where, "-n", "-p", "-U", "-s", str(SNAPLEN), "-w", "-", packets]


async def capture(node: NodeAccess, words: Sequence[str], file: BinaryIO, seconds: float, most: int) -> str:
    """Run the command and write up to ``most`` captured bytes; returns its last message, which explains an empty file.

    Raises :class:`OSError` if the file cannot be written.
    """
    wrong: list[OSError] = []

    def keep(data: bytes) -> bool:
        try:
            file.write(b"" if wrong else data)
        except OSError as error:  # raised below, not into the connection's callback
            wrong.append(error)
        return False

    running = Running(node.transport, words, b"", keep, raw=True, limits=Limits(total=most))
    try:
        async with running:
            await running.ended(seconds + SLACK_SECONDS)
    except (TimeoutError, TransportError) as error:
        return str(error) or f"no end within {seconds + SLACK_SECONDS:g} s"
    if wrong:
        raise wrong[0]
    return running.last_error() or "tcpdump wrote nothing"


def result(captures: Sequence[dict[str, Any]]) -> ProbeResult:
    """The result: the files, and why a node has none."""
    failed = [one for one in captures if not one["file"]]
    summary = f"{count(len(captures), 'capture')}, for Wireshark or tcpdump -r"
    if failed:
        summary = f"no capture on {', '.join(one['node'] for one in failed)}: {failed[0]['why']}"
    rows = [(one["node"], one["file"] or "no capture", size(one["bytes"]), one["why"]) for one in captures]
    figures = {"backend": "tcpdump", "captures": list(captures)}
    lines = tuple(table(("node", "file", "size", ""), rows))
    return ProbeResult("Packet capture", "failed" if failed else "ok", summary, lines, figures)
