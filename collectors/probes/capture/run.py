"""Captures on several nodes at once, each into a file here."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from collectors.fleet import payload
from collectors.fleet.transport import Transport, TransportError
from collectors.probes.decoding import Unreadable, answer
from collectors.probes.running import Limits, Running
from collectors.samples.asked import Observation

ENTRY = "collectors.probes.capture.remote.dump"
SNAPLEN = 128
"""Bytes of each packet: headers alone, so that no data of the job leaves its node."""
SLACK_SECONDS = 20.0
_observation = answer(Observation)
_STATISTICS = re.compile(
    r"(?<!\d)(\d{1,18}) packets? captured.{0,300}?(?<!\d)(\d{1,18}) packets? dropped by kernel", re.DOTALL
)
_NO_RIGHT = re.compile(r"permission|not permitted", re.IGNORECASE)
_HOSTS = 32
"""Peers that a filter names one by one; with more, the job's port alone is captured."""


@dataclass(frozen=True, slots=True)
class CaptureNode:
    """A node to capture on: its connection, its interpreter, and what to capture there."""

    name: str
    transport: Transport
    python: str
    interface: str
    """Empty: whatever tcpdump takes first."""
    peers: tuple[str, ...]
    """Addresses of the job's other nodes."""
    port: int | None
    """MASTER_PORT."""

    def words(self) -> list[str]:
        """Tcpdump's arguments: no names, no promiscuous mode, headers alone, each packet to standard output at once.

        Started as root it gives its rights up, as it was built to. With them goes its parent-death signal: where this
        side is cut off it ends at its next packet, for which nobody reads.
        """
        where = ["-i", self.interface] if self.interface else []
        return [*where, "-n", "-p", "-U", "-s", str(SNAPLEN), "-w", "-", self.filter()]

    def filter(self) -> str:
        """TCP between the job's nodes and on its port, without SSH."""
        wanted = [f"host {address}" for address in self.peers] if len(self.peers) <= _HOSTS else []
        wanted += [f"port {self.port}"] if self.port is not None else []
        return "tcp and not port 22" + (f" and ({' or '.join(wanted)})" if wanted else "")

    def command(self) -> str:
        """The exact command, as a shell would be told."""
        return shlex.join(["tcpdump", *self.words()])


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
    lines = [f"on {node.name}: {node.command()}" for node in nodes]
    who = "root, else through sudo -n" if sudo else "the login"
    lines.append(
        f"as {who}; ended by SIGINT after {seconds:g} s or {most / 1e6:g} MB; run by: "
        f"{shlex.join(payload.command())} (the program comes through its input)"
    )
    return lines


async def capture(
    nodes: Sequence[CaptureNode], folder: Path, name: str, *, seconds: float, most: int, sudo: bool
) -> list[Captured]:
    """Capture on all nodes at once into ``folder``/``name``-NODE.pcap. Raises :class:`OSError` of the folder.

    ``sudo``: the person has said that ``sudo -n`` may be tried where the login may not capture.
    """
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    return list(await asyncio.gather(*(_one(node, folder, name, seconds, most, sudo) for node in nodes)))


async def _one(node: CaptureNode, folder: Path, name: str, seconds: float, most: int, sudo: bool) -> Captured:
    path = folder / f"{name}-{re.sub(r'[^A-Za-z0-9._-]+', '_', node.name)}.pcap"
    whys: list[str] = []
    for prefix in ((), ("sudo", "-n")) if sudo else ((),):
        with path.open("wb") as file:
            said, why = await _run(node, prefix, file, seconds, most)
        size = path.stat().st_size
        if size:
            found = _STATISTICS.search(said)
            packets, dropped = (int(found.group(1)), int(found.group(2))) if found else (None, None)
            return Captured(node.name, path, size, packets, dropped, "")
        whys.append(f"{' '.join(prefix)}: {why}" if prefix else why)
        if not _NO_RIGHT.search(why):
            break
    path.unlink()
    if not sudo and _NO_RIGHT.search(whys[-1]):
        whys.append("sudo -n was not tried: --sudo allows it")
    return Captured(node.name, None, 0, None, None, "; ".join(whys))


async def _run(node: CaptureNode, prefix: Sequence[str], file: BinaryIO, seconds: float, most: int) -> tuple[str, str]:
    """(what tcpdump said, why there is no capture)."""
    into = _Into(file)
    arguments = {"command": node.words(), "seconds": seconds, "most": most}
    words = [*prefix, *payload.command(node.python)]
    # what comes over that, in whole packets, is the last of tcpdump's buffer
    limits = Limits(total=most + (1 << 24))
    running = Running(node.transport, words, payload.pack(ENTRY, arguments), into.take, raw=True, limits=limits)
    try:
        async with running:
            await running.ended(seconds + SLACK_SECONDS)
    except TimeoutError:
        return "", f"no end within {seconds + SLACK_SECONDS:g} s"
    except TransportError as error:
        return "", str(error)
    if into.error is not None:
        raise into.error
    last = running.said()
    try:
        told = _observation(last.encode())
    except Unreadable:
        return "", last or "it said nothing"
    lines = [line.strip() for line in told.error.splitlines() if line.strip()]
    return told.error, lines[-1] if lines else "tcpdump wrote nothing"


class _Into:
    """Writes what comes into a file; an error is kept for whoever waits, not thrown into the connection."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def take(self, data: bytes) -> bool:
        """Write a chunk."""
        if self.error is None:
            try:
                self._file.write(data)
            except OSError as error:
                self.error = error
        return False
