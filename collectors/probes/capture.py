"""Packet captures: tcpdump on several nodes at once, the headers of the job's packets into a file here."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from collectors.fleet.transport import TransportError
from collectors.probes.running import Limits, NodeAccess, Running

SNAPLEN = 128
"""Bytes of each packet: headers alone, so that no data of the job leaves its node."""
SLACK_SECONDS = 20.0
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

    def words(self, seconds: float, *, sudo: bool) -> list[str]:
        """The whole command: no names, no promiscuous mode, headers alone, each packet to standard output at once.

        TCP between the job's nodes and on its port, without SSH. ``timeout`` ends it, also where this side is cut off.
        """
        wanted = [f"host {address}" for address in self.peers] if len(self.peers) <= _HOSTS else []
        wanted += [f"port {self.port}"] if self.port is not None else []
        packets = "tcp and not port 22" + (f" and ({' or '.join(wanted)})" if wanted else "")
        start = [*(["sudo", "-n"] if sudo else []), "timeout", "-s", "INT", f"{seconds:g}", "tcpdump"]
        where = ["-i", self.interface] if self.interface else []
        return [*start, *where, "-n", "-p", "-U", "-s", str(SNAPLEN), "-w", "-", packets]


class Captured(NamedTuple):
    """What became of one node's capture."""

    node: str
    file: str
    """Empty where there is none."""
    bytes: int
    why: str
    """Why there is no capture; empty when there is one."""


def describe(nodes: Sequence[CaptureNode], seconds: float, *, sudo: bool) -> list[str]:
    """The exact command of each node."""
    return [f"on {one.node.name}: {shlex.join(one.words(seconds, sudo=sudo))}" for one in nodes]


async def capture(
    nodes: Sequence[CaptureNode], folder: Path, name: str, *, seconds: float, most: int, sudo: bool
) -> list[Captured]:
    """Capture on all nodes at once into ``folder``/``name``-NODE.pcap, ``most`` bytes each.

    Raises :class:`OSError` of the folder.
    """
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)

    async def one(node: CaptureNode) -> Captured:
        path = folder / f"{name}-{re.sub(r'[^A-Za-z0-9._-]+', '_', node.node.name)}.pcap"
        with path.open("wb") as file:
            why = await _run(node, file, seconds, most, sudo)
        if size := path.stat().st_size:
            return Captured(node.node.name, str(path), size, "")
        path.unlink()
        return Captured(node.node.name, "", 0, why)

    return list(await asyncio.gather(*map(one, nodes)))


async def _run(one: CaptureNode, file: BinaryIO, seconds: float, most: int, sudo: bool) -> str:
    """Why there is no capture. Raises :class:`OSError` of the file."""
    wrong: list[OSError] = []

    def keep(data: bytes) -> bool:
        try:
            file.write(b"" if wrong else data)
        except OSError as error:  # for whoever waits, not for the connection
            wrong.append(error)
        return False

    words, limits = one.words(seconds, sudo=sudo), Limits(total=most)
    running = Running(one.node.transport, words, b"", keep, raw=True, limits=limits)
    try:
        async with running:
            await running.ended(seconds + SLACK_SECONDS)
    except TimeoutError:
        return f"no end within {seconds + SLACK_SECONDS:g} s"
    except TransportError as error:
        return str(error)
    if wrong:
        raise wrong[0]
    return running.said() or "tcpdump wrote nothing"
