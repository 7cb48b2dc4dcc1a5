"""Packet captures: tcpdump on several nodes at once, the headers of the job's packets into a file here."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from collectors.fleet import payload
from collectors.fleet.transport import TransportError
from collectors.probes.running import Limits, NodeAccess, Running, Unreadable, observation

ENTRY = "collectors.probes.remote.capture"
SNAPLEN = 128
"""Bytes of each packet: headers alone, so that no data of the job leaves its node."""
SLACK_SECONDS = 20.0
_STATISTICS = re.compile(
    r"(?<!\d)(\d{1,18}) packets? captured.{0,300}?(?<!\d)(\d{1,18}) packets? dropped by kernel", re.DOTALL
)
_NO_RIGHT = re.compile(r"permission|not permitted", re.IGNORECASE)
_HOSTS = 32
"""Peers that a filter names one by one; with more, the job's port alone is captured."""


@dataclass(frozen=True, slots=True)
class CaptureNode:
    """A node to capture on, and what to capture there."""

    node: NodeAccess
    interface: str
    """Empty: whatever tcpdump takes first."""
    peers: tuple[str, ...]
    """Addresses of the job's other nodes."""
    port: int | None
    """MASTER_PORT."""

    def words(self) -> list[str]:
        """Tcpdump's arguments: no names, no promiscuous mode, headers alone, each packet to standard output at once.

        TCP between the job's nodes and on its port, without SSH. Started as root tcpdump gives its rights up, as it was
        built to. With them goes its parent-death signal: where this side is cut off it ends at its next packet, for
        which nobody reads.
        """
        wanted = [f"host {address}" for address in self.peers] if len(self.peers) <= _HOSTS else []
        wanted += [f"port {self.port}"] if self.port is not None else []
        packets = "tcp and not port 22" + (f" and ({' or '.join(wanted)})" if wanted else "")
        where = ["-i", self.interface] if self.interface else []
        return [*where, "-n", "-p", "-U", "-s", str(SNAPLEN), "-w", "-", packets]


@dataclass(frozen=True, slots=True)
class Captured:
    """What became of one node's capture."""

    node: str
    path: Path | None
    size: int
    packets: int | None
    """As tcpdump counted them; None where it did not say."""
    dropped: int | None
    """Packets that the kernel had no room for."""
    why: str
    """Why there is no capture; empty when there is one."""


def describe(nodes: Sequence[CaptureNode], seconds: float, most: int, *, sudo: bool) -> list[str]:
    """The exact command of each node, and what runs it; ``sudo`` as in :func:`capture`."""
    lines = [f"on {one.node.name}: {shlex.join(['tcpdump', *one.words()])}" for one in nodes]
    who = "root, else through sudo -n" if sudo else "the login"
    runner = f"{shlex.join(payload.command())} (the program comes through its input)"
    return [*lines, f"as {who}; ended by SIGINT after {seconds:g} s or {most / 1e6:g} MB; run by: {runner}"]


async def capture(
    nodes: Sequence[CaptureNode], folder: Path, name: str, *, seconds: float, most: int, sudo: bool
) -> list[Captured]:
    """Capture on all nodes at once into ``folder``/``name``-NODE.pcap. Raises :class:`OSError` of the folder.

    ``sudo``: the person has said that ``sudo -n`` may be tried where the login may not capture.
    """
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    prefixes: list[tuple[str, ...]] = [(), ("sudo", "-n")] if sudo else [()]

    async def one(node: CaptureNode) -> Captured:
        path = folder / f"{name}-{re.sub(r'[^A-Za-z0-9._-]+', '_', node.node.name)}.pcap"
        whys: list[str] = []
        for prefix in prefixes:
            with path.open("wb") as file:
                said, why = await _run(node, prefix, file, seconds, most)
            if size := path.stat().st_size:
                found = _STATISTICS.search(said)
                packets, dropped = (int(found.group(1)), int(found.group(2))) if found else (None, None)
                return Captured(node.node.name, path, size, packets, dropped, "")
            whys.append(f"{' '.join(prefix)}: {why}" if prefix else why)
            if not _NO_RIGHT.search(why):
                break
        path.unlink()
        if not sudo and _NO_RIGHT.search(whys[-1]):
            whys.append("sudo -n was not tried: --sudo allows it")
        return Captured(node.node.name, None, 0, None, None, "; ".join(whys))

    return list(await asyncio.gather(*map(one, nodes)))


async def _run(one: CaptureNode, prefix: Sequence[str], file: BinaryIO, seconds: float, most: int) -> tuple[str, str]:
    """(what tcpdump said, why there is no capture). Raises :class:`OSError` of the file."""
    wrong: list[OSError] = []

    def keep(data: bytes) -> bool:
        try:
            file.write(b"" if wrong else data)
        except OSError as error:  # for whoever waits, not for the connection
            wrong.append(error)
        return False

    packed = payload.pack(ENTRY, {"command": one.words(), "seconds": seconds, "most": most})
    words = [*prefix, *payload.command(one.node.python)]
    # what comes over that, in whole packets, is the last of tcpdump's buffer
    running = Running(one.node.transport, words, packed, keep, raw=True, limits=Limits(total=most + (1 << 24)))
    try:
        async with running:
            await running.ended(seconds + SLACK_SECONDS)
    except TimeoutError:
        return "", f"no end within {seconds + SLACK_SECONDS:g} s"
    except TransportError as error:
        return "", str(error)
    if wrong:
        raise wrong[0]
    last = running.said()
    try:
        said = observation(last.encode()).error
    except Unreadable:
        return "", last or "it said nothing"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return said, lines[-1] if lines else "tcpdump wrote nothing"
