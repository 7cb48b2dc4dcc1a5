"""Packet captures: tcpdump on several nodes at once, the headers of the job's packets into a file here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from collectors.fleet.transport import TransportError
from collectors.probes.running import Limits, NodeAccess, Running

SNAPLEN = 128
"""Bytes of each packet: headers alone, so that no data of the job leaves its node."""
SLACK_SECONDS = 20.0
_HOSTS = 32
"""Peers that a filter names one by one; with more, the job's port alone is captured."""


def tcpdump(interface: str, peers: Sequence[str], port: int | None, seconds: float, *, sudo: bool) -> list[str]:
    """The whole command: no names, no promiscuous mode, headers alone, each packet to standard output at once.

    TCP to and from ``peers`` and on ``port``, without SSH; without an interface on what tcpdump takes first.
    ``timeout`` ends it, also where this side is cut off.
    """
    wanted = [f"host {address}" for address in peers] if len(peers) <= _HOSTS else []
    wanted += [f"port {port}"] if port is not None else []
    packets = "tcp and not port 22" + (f" and ({' or '.join(wanted)})" if wanted else "")
    start = [*(["sudo", "-n"] if sudo else []), "timeout", "-s", "INT", f"{seconds:g}", "tcpdump"]
    where = ["-i", interface] if interface else []
    return [*start, *where, "-n", "-p", "-U", "-s", str(SNAPLEN), "-w", "-", packets]


async def capture(node: NodeAccess, words: Sequence[str], file: BinaryIO, seconds: float, most: int) -> str:
    """Run the command and write what it captures, ``most`` bytes; what it said at its end, for where that is nothing.

    Raises :class:`OSError` of the file.
    """
    wrong: list[OSError] = []

    def keep(data: bytes) -> bool:
        try:
            file.write(b"" if wrong else data)
        except OSError as error:  # for whoever waits, not for the connection
            wrong.append(error)
        return False

    running = Running(node.transport, words, b"", keep, raw=True, limits=Limits(total=most))
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
