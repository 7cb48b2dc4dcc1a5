"""The way to a host's SSH port: a connected socket, or the words of a ProxyCommand."""

from __future__ import annotations

import asyncio
import concurrent.futures
import shlex
import socket
import threading
from typing import Any

from collectors.fleet.ssh.config import HostSettings

NEXT_ADDRESS = 3.0
"""Seconds for each address of a host but the last."""


async def open_socket(settings: HostSettings) -> socket.socket:
    """Connect to the first of a host's addresses that answers. Raises :class:`OSError`."""
    family, port = settings.options.family, settings.port
    answer: concurrent.futures.Future[list[Any]] = concurrent.futures.Future()

    def resolve() -> None:
        try:
            answer.set_result(socket.getaddrinfo(settings.host, port, family=family, type=socket.SOCK_STREAM))
        except UnicodeError:
            answer.set_exception(socket.gaierror(socket.EAI_NONAME, "no host name"))
        except OSError as error:
            answer.set_exception(error)

    # A daemon thread, for which the end of the program does not wait: a name server may be dead.
    threading.Thread(target=resolve, name=f"resolve {settings.host}", daemon=True).start()
    addresses = await asyncio.wrap_future(answer)
    for number, (kind, _, _, _, address) in enumerate(addresses, start=1):
        last = number == len(addresses)
        sock = socket.socket(kind, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            if settings.options.local_addr is not None:
                sock.bind(settings.options.local_addr)
            async with asyncio.timeout(None if last else NEXT_ADDRESS):
                await asyncio.get_running_loop().sock_connect(sock, address)
        except BaseException as error:
            sock.close()
            if last or not isinstance(error, OSError):
                raise
        else:
            return sock
    raise OSError(f"no address for {settings.host}")


def proxy_words(command: str, complaints: str) -> list[str]:
    """Words that run a ProxyCommand with its standard error in a file.

    asyncssh reads standard error as the host's output, and its end as the end of the connection; so the shell, which
    holds standard error open, must not exec the command.
    """
    return ["/bin/sh", "-c", f"{{ {command}\n}} 2>>{shlex.quote(complaints)}; exit $?"]
