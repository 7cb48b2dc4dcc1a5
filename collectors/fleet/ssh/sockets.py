"""A connected socket to a host's SSH port: directly, or to the far end of a ProxyCommand."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import socket
import threading
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from collectors.fleet.clean import clean_bytes
from collectors.fleet.ssh.settings import HostSettings

AddressInfo: TypeAlias = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
NEXT_ADDRESS = 1.0
"""Seconds that an address of a host may take before the next one is tried as well: a SYN that was lost is sent again by
then."""
_NOISE_LIMIT = 4096
_LAST_WORDS = 1.0
"""Seconds for a ProxyCommand to end, and for what it said last to come."""


async def connect(settings: HostSettings) -> socket.socket:
    """Connect to the first of the host's addresses that answers. Raises :class:`OSError`.

    An address that says nothing does not use up the time of the others: the next one is tried beside it.
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
    raise error or OSError(f"no address for {settings.hostname}")


async def _connect(settings: HostSettings, info: AddressInfo) -> socket.socket:
    family, kind, protocol, _, address = info
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        if settings.bind_address:
            sock.bind((settings.bind_address, 0))
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _close(attempt: asyncio.Task[socket.socket]) -> None:
    """Close what came too late; what failed too late is nobody's concern."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


async def _addresses(settings: HostSettings) -> Sequence[AddressInfo]:
    try:
        ipaddress.ip_address(settings.hostname.partition("%")[0])
    except ValueError:
        return await _resolve(settings.hostname, settings.port, settings.family)
    return socket.getaddrinfo(settings.hostname, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)


async def _resolve(host: str, port: int, family: int) -> Sequence[AddressInfo]:
    """Look a name up in a thread that nothing waits for: a dead name server must not hold up the end of the program."""
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


class ProxyCommand:
    """A running ProxyCommand; its own complaints are kept apart from what it passes on."""

    def __init__(self, process: Process, stream: asyncio.StreamReader) -> None:
        self._process = process
        self._said = bytearray()
        self._errors = asyncio.ensure_future(_keep(stream, self._said))

    @classmethod
    async def start(cls, command: str) -> tuple[ProxyCommand, socket.socket]:
        """Start it in the user's shell; the socket leads to its standard input and output."""
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                os.environ.get("SHELL", "/bin/sh"), "-c", f"exec {command}",
                stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=asyncio.subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        assert process.stderr is not None
        ours.setblocking(False)
        return cls(process, process.stderr), ours

    async def complaint(self) -> str:
        """Last line that it said on standard error; ends it first.

        What it has started may go on and hold standard error open, as ssh's ControlPersist does.
        """
        self.end()
        await asyncio.wait({self._errors}, timeout=_LAST_WORDS)
        lines = clean_bytes(bytes(self._said)).strip().splitlines()
        return lines[-1] if lines else ""

    async def finish(self) -> None:
        """End it and wait until it has, by force when it takes longer than a second."""
        gone = asyncio.ensure_future(self._process.wait())
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._signal(number)
            await asyncio.wait({gone}, timeout=_LAST_WORDS)
        gone.cancel()  # what it has started may hold its pipes
        self._errors.cancel()

    def end(self) -> None:
        """End it."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        # Not by the process's own terminate() and kill(): see LocalProcess.kill.
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)


async def _keep(stream: asyncio.StreamReader, said: bytearray) -> None:
    """Read to the end, keeping the last of it."""
    while data := await stream.read(_NOISE_LIMIT):
        said += data
        del said[:-_NOISE_LIMIT]
