"""SSH connections of a fleet: a limit on handshakes, shared jump hosts, unknown host keys."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncssh

from collectors.fleet.sink import Asker, HostKeyQuestion
from collectors.fleet.ssh.config import HostSettings, SshConfig
from collectors.fleet.ssh.errors import explain
from collectors.fleet.ssh.keys import Keys
from collectors.fleet.ssh.known_hosts import HostKeys, KnownKeys
from collectors.fleet.targets.chosen import TargetError, parse
from collectors.fleet.transport import Declined, Refused, SshConfigError, TransportError

REACHING = 64
"""Hosts that are looked up in the ssh_config or connected to at once."""
HANDSHAKES = 8
"""Handshakes at once: more would stall the screen and overrun sshd's MaxStartups."""
_FAST = "^aes128-gcm@openssh.com"


class Client(asyncssh.SSHClient):
    """asyncssh's callbacks for one connection."""

    def __init__(self) -> None:
        self.shown: asyncssh.SSHKey | None = None
        """The host key that is not trusted, if the host showed one."""
        self.on_lost: Callable[[Exception | None], None] | None = None

    def validate_host_public_key(self, _host: str, _addr: str, _port: int, key: asyncssh.SSHKey) -> bool:
        """Refuse a key that is not trusted; the user is asked after this handshake."""
        self.shown = key
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended."""
        if self.on_lost is not None:
            self.on_lost(exc)


class Connector:
    """Opens the connections of one fleet and holds the state that they share."""

    def __init__(self, ssh_config: Path | None, ask: Asker) -> None:
        """Read the ssh_config. Raises :class:`SshConfigError`."""
        self._config = SshConfig(ssh_config)
        self._ask = ask
        self._one_question = asyncio.Lock()
        self._host_keys = HostKeys()
        self._keys = Keys()
        self._reaching = asyncio.Semaphore(REACHING)
        self._handshakes = asyncio.Semaphore(HANDSHAKES)
        self._tunnels: dict[tuple[str, ...], asyncio.Task[asyncssh.SSHClientConnection]] = {}

    async def settings(self, host: str, user: str | None, port: int | None) -> HostSettings:
        """The ssh_config of a host. Raises :class:`SshConfigError`."""
        async with self._reaching:
            return await asyncio.to_thread(self._config.settings, host, user, port)

    async def open(self, settings: HostSettings, node: str) -> tuple[asyncssh.SSHClientConnection, Client]:
        """Open a connection. Raises :class:`Refused` if the user must act first, else :class:`TransportError`."""
        while True:
            tunnel = await self._tunnel(settings.jumps, node)
            known = await asyncio.to_thread(self._host_keys.known, settings)
            client = Client()
            try:
                return await self._attempt(settings, client, known, tunnel), client
            except asyncssh.HostKeyNotVerifiable as error:
                if client.shown is None:
                    why = f"{settings.known_name} shows a key that is not accepted ({error.reason})"
                    raise Refused(f"{why}: --via ssh leaves the decision to OpenSSH") from None
                await self._settle(settings, known, client.shown, node)

    async def close(self) -> None:
        """Close jump connections and agents."""
        for task in self._tunnels.values():
            task.cancel()
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().abort()
        self._tunnels.clear()
        self._keys.close()

    async def _attempt(
        self, settings: HostSettings, client: Client, known: KnownKeys, tunnel: asyncssh.SSHClientConnection | None
    ) -> asyncssh.SSHClientConnection:
        """Connect and log in once."""
        offers = await self._keys.offers(settings)
        trusted: Any = (known.trusted, known.authorities, known.revoked)
        how: dict[str, Any] = {"client_keys": offers or None, "known_hosts": lambda *_: trusted, "tunnel": tunnel}
        if not settings.value("HostKeyAlgorithms"):
            how["server_host_key_algs"] = known.algorithms()
        if not settings.value("Ciphers"):
            how["encryption_algs"] = _FAST
        accepted = False
        try:
            if settings.proxy_command:
                how["proxy_command"] = proxy_words(settings.proxy_command)
            elif tunnel is None:
                async with self._reaching, asyncio.timeout(settings.timeout):
                    how["sock"] = await open_socket(settings)
            accepted = not settings.proxy_command
            async with self._handshakes, asyncio.timeout(settings.timeout):
                # With config=None, asyncssh uses the options as they are and reads no file again.
                return await asyncssh.connect(
                    settings.host, settings.port, options=settings.options, config=None, reload=False, final=False,
                    client_factory=lambda: client, **how,
                )  # fmt: skip
        except asyncssh.HostKeyNotVerifiable:
            raise
        except (OSError, asyncssh.Error, ValueError) as error:
            if settings.proxy_command and isinstance(error, (OSError, asyncssh.ConnectionLost)):
                why = f"the ProxyCommand of {settings.original} gives no connection: try ssh {settings.original}"
                raise TransportError(why) from None
            raise explain(error, settings, offers, accepted=accepted) from None

    async def _settle(self, settings: HostSettings, known: KnownKeys, key: asyncssh.SSHKey, node: str) -> None:
        """Decide on a host key that is not trusted: returns if it is trusted now, else raises :class:`Refused`."""
        name, shown = settings.known_name, f"{key.get_algorithm()} {key.get_fingerprint()}"
        if known.named:
            raise Refused(
                f"{name} shows another host key than before ({shown}). If it was set up anew, remove the old key "
                f"(ssh-keygen -R '{name}'); if not, somebody may be listening"
            )
        strict = await self._config.strictness(settings)
        answer: bool | None = strict in ("accept-new", "no", "off", "false")
        if not answer and strict not in ("yes", "true"):
            async with self._one_question:
                answer = await self._ask(HostKeyQuestion(node, name, shown))
            if answer is False:
                raise Declined(f"{name}: its host key was not accepted ({shown})")
        if not answer:
            raise Refused(
                f"{name} is in no known_hosts file, and nobody may be asked about its key: ssh {settings.original} "
                "once, or have ssh-keyscan and StrictHostKeyChecking accept-new do it for many"
            )
        self._host_keys.remember(settings, key)

    # --- jump hosts -----------------------------------------------------------------------------------------------

    async def _tunnel(self, jumps: tuple[str, ...], node: str) -> asyncssh.SSHClientConnection | None:
        """The connection to the last of the jump hosts, shared by all nodes behind it; None without jump hosts."""
        if not jumps:
            return None
        task = self._tunnels.get(jumps)
        if task is None or (task.done() and (task.cancelled() or task.exception() or task.result().is_closed())):
            task = self._tunnels[jumps] = asyncio.ensure_future(self._open_jump(jumps, node))
        try:
            return await asyncio.shield(task)
        except TransportError as error:
            raise type(error)(f"jump host {jumps[-1]}: {error}") from None

    async def _open_jump(self, jumps: tuple[str, ...], node: str) -> asyncssh.SSHClientConnection:
        *before, last = jumps
        try:
            (target,) = parse([last])
        except (TargetError, ValueError):
            raise SshConfigError(f"{last!r} is no host") from None
        jump = await self.settings(target.host, target.user, target.port)
        if before or jump.jumps == jumps:  # "Host *" with a ProxyJump names the jump host too
            jump = replace(jump, jumps=tuple(before), proxy_command="")
        connection, _ = await self.open(jump, node)
        return connection


async def open_socket(settings: HostSettings) -> socket.socket:
    """A socket connected to the first of a host's addresses that accepts. Raises :class:`OSError`."""
    loop, failure = asyncio.get_running_loop(), OSError(f"no address for {settings.host}")
    try:
        found = await loop.getaddrinfo(
            settings.host, settings.port, family=settings.options.family, type=socket.SOCK_STREAM
        )
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "no host name") from None
    for kind, _, _, _, address in found:
        sock = socket.socket(kind, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


def proxy_words(command: str) -> list[str]:
    """Words that run a ProxyCommand without its standard error.

    asyncssh reads standard error as output of the host, and its end as the end of the connection. So the shell, which
    keeps standard error open, must not exec the command.
    """
    return ["/bin/sh", "-c", f"{{ {command}\n}} 2>/dev/null; exit $?"]
