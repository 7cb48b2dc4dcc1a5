"""A connected socket to a host's SSH port, at the first of its addresses that answers."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Sequence
from typing import Any, TypeAlias

from collectors.fleet.ssh.config import HostSettings

AddressInfo: TypeAlias = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
NEXT_ADDRESS = 1.0
"""Seconds before the next address is tried as well: by then a lost SYN was sent again."""


async def connect(settings: HostSettings) -> socket.socket:
    """Connect to the first of the host's addresses that answers. Raises :class:`OSError`.

    A silent address does not delay the others: the next one is tried beside it.
    """
    error: OSError | None = None
    trying: set[asyncio.Task[socket.socket]] = set()
    addresses = list(await _addresses(settings))
    try:
        while addresses or trying:
            if addresses:
                trying.add(asyncio.ensure_future(_connect(settings, addresses.pop(0))))
            done, trying = await asyncio.wait(
                trying, timeout=NEXT_ADDRESS if addresses else None, return_when=asyncio.FIRST_COMPLETED
            )
            for attempt in done:
                problem = attempt.exception()
                if problem is None:
                    trying |= done - {attempt}
                    return attempt.result()
                if not isinstance(problem, OSError):
                    raise problem
                error = problem
    finally:
        for attempt in trying:
            attempt.cancel()
            attempt.add_done_callback(_close)
    raise error or OSError(f"no address for {settings.host}")


async def _connect(settings: HostSettings, info: AddressInfo) -> socket.socket:
    family, kind, protocol, _, address = info
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        if settings.options.local_addr is not None:
            sock.bind(settings.options.local_addr)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _close(attempt: asyncio.Task[socket.socket]) -> None:
    """Close a socket that connected after another one."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


async def _addresses(settings: HostSettings) -> Sequence[AddressInfo]:
    try:
        ipaddress.ip_address(settings.host.partition("%")[0])
    except ValueError:
        return await _resolve(settings.host, settings.port, settings.options.family)
    return socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)


async def _resolve(host: str, port: int, family: int) -> Sequence[AddressInfo]:
    """Resolve a name in a daemon thread: a dead name server must not delay the end of the program."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[AddressInfo]] = loop.create_future()

    def settle(found: Sequence[AddressInfo] | OSError) -> None:
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def look() -> None:
        found: Sequence[AddressInfo] | OSError
        try:
            found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        except OSError as error:
            found = error
        except UnicodeError:
            found = socket.gaierror(socket.EAI_NONAME, "no host name")
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=look, name=f"resolve {host}", daemon=True).start()
    return await answer
