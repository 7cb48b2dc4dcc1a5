"""Opens SSH connections for a whole fleet: handshakes in turn, jump hosts shared, questions asked, drops retried."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import asyncssh
from asyncssh.encryption import get_default_encryption_algs, get_encryption_algs
from asyncssh.kex import get_kex_algs
from asyncssh.mac import get_mac_algs
from asyncssh.public_key import get_certificate_algs, get_public_key_algs

from collectors.fleet.ssh.asking import Passwords, Questions
from collectors.fleet.ssh.client import Client
from collectors.fleet.ssh.config import SshConfig
from collectors.fleet.ssh.connection_limit import ConnectionLimit, Slot
from collectors.fleet.ssh.handshake_clock import HandshakeClock, rest_for_people
from collectors.fleet.ssh.host_keys import HostKeys
from collectors.fleet.ssh.keys import KeyRing
from collectors.fleet.ssh.patterns import match_list
from collectors.fleet.ssh.reasons import Dropped, explain, unfinished
from collectors.fleet.ssh.settings import HostSettings, Jump, settings_of
from collectors.fleet.ssh.sockets import ProxyCommand, connect
from collectors.fleet.ssh.thin import KEEPALIVE, KEEPALIVES, ThinConnection
from collectors.fleet.ssh.trusting import Trusting
from collectors.fleet.ssh.vouching import vouched
from collectors.fleet.transport import Declined, Refused, TransportError

TIMEOUT = 10.0
"""Seconds for reaching a host and shaking hands when the ssh_config says nothing; a person's time does not count."""

PATIENCE = 0.25
"""Seconds that a host may take to accept a TCP connection before others go first."""

DROPS = 6
"""Times that a handshake which the far side dropped is tried again."""

_FAST = "aes128-gcm@openssh.com"
_JUMP_LIMIT = 8


class Connector:
    """Everything that the connections of one fleet share."""

    def __init__(self, config: SshConfig, questions: Questions, *, batch: bool = False) -> None:
        self._config = config
        self._batch = batch
        self._questions = questions
        self._passwords = Passwords()
        self._host_keys = HostKeys()
        self._trusting = Trusting(self._host_keys, questions)
        self._ring = KeyRing(questions)
        self._limit = ConnectionLimit()
        self._tunnels: dict[HostSettings, asyncio.Task[asyncssh.SSHClientConnection]] = {}
        self._proxies: set[ProxyCommand] = set()
        self._jumps: dict[Jump, HostSettings] = {}

    def settings(self, host: str, user: str | None, port: int | None) -> HostSettings:
        """Look a host up and read its known_hosts. Blocks for ``Match exec``. Raises :class:`SshConfigError`."""
        settings = settings_of(self._config, host, user, port)
        if self._batch:
            settings = replace(settings, batch=True)
        self._host_keys.read(settings)
        return settings

    async def open(
        self, settings: HostSettings, node: str, waiting: Callable[[str], None]
    ) -> tuple[asyncssh.SSHClientConnection, Client]:
        """Open a connection. ``waiting`` is told what it waits for, a person or nothing.

        Raises :class:`Refused` when somebody must act first, else :class:`TransportError`.
        """
        drops = 0
        while True:
            tunnel = await self._tunnel(settings, node, waiting)
            client = self._client(settings, node, waiting)
            try:
                return await self._shake_hands(settings, client, tunnel), client
            except asyncssh.HostKeyNotVerifiable as error:
                await self._trusting.settle(client, node, error, waiting)
            except Dropped as error:
                drops += 1
                if drops > DROPS:
                    raise
                waiting(f"{error}; trying again")
                await asyncio.sleep(random.uniform(0.5, 1.5) * 0.2 * 1.6**drops)  # noqa: S311 (jitter, no secret)

    def ask_again(self) -> None:
        """Forget which questions were declined: the person wants another try."""
        self._passwords.ask_again()

    async def close(self) -> None:
        """Close what is shared."""
        for task in self._tunnels.values():
            task.cancel()
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().abort()
        self._tunnels.clear()
        self._ring.close()
        await asyncio.gather(*(proxy.finish() for proxy in self._proxies))
        self._proxies.clear()

    # --- one handshake --------------------------------------------------------------------------------------------

    def _client(self, settings: HostSettings, node: str, waiting: Callable[[str], None]) -> Client:
        attempt = self._passwords.attempt(settings.user, settings.known_as, settings.port)
        return Client(settings, node, self._host_keys, self._ring, attempt, self._questions, waiting)

    async def _shake_hands(
        self, settings: HostSettings, client: Client, tunnel: asyncssh.SSHClientConnection | None
    ) -> asyncssh.SSHClientConnection:
        seconds = settings.timeout or TIMEOUT
        proxy: ProxyCommand | None = None
        reached = tunnel is not None
        try:
            async with self._limit.slot() as slot, asyncio.timeout(seconds) as deadline:
                clock = HandshakeClock(deadline, seconds)
                told = rest_for_people(client, slot, clock)
                sock: socket.socket | None = None
                if settings.proxy_command:
                    proxy, sock = await ProxyCommand.start(settings.proxy_command)
                    self._proxies.add(proxy)
                    client.on_lost = lambda _error, proxy=proxy: proxy.end()
                elif tunnel is None:
                    sock = await self._reach(settings, slot, clock)
                    reached = True
                connection = await self._handshake(settings, client, sock, tunnel)
                client.waiting = told  # nobody is waited for any more, and clock and slot can go
                return connection
        except asyncssh.HostKeyNotVerifiable:
            raise
        except (OSError, asyncssh.Error, ValueError, TransportError) as error:
            complaint = await proxy.complaint() if proxy is not None else ""
            if complaint:
                raise TransportError(f"ProxyCommand of {settings.original}: {complaint}") from None
            if client.declined and isinstance(error, asyncssh.PermissionDenied):
                raise Declined(f"{settings.user}@{settings.hostname}: the question was not answered") from None
            if reached and isinstance(error, TimeoutError):
                raise unfinished(settings, seconds) from None
            raise explain(error, settings, client.tried, client.left_out) from None
        except asyncio.CancelledError:
            if proxy is not None:
                proxy.end()
            raise

    async def _reach(self, settings: HostSettings, slot: Slot, clock: HandshakeClock) -> socket.socket:
        """Connect, and let others go first when the host takes its time: it may never answer."""
        connecting = asyncio.ensure_future(connect(settings))
        try:
            done, _ = await asyncio.wait({connecting}, timeout=PATIENCE)
            if not done:
                slot.give_up()
                await connecting
                clock.rest()
                await slot.take()
                clock.run()
        except BaseException:
            connecting.cancel()
            with suppress(asyncio.CancelledError, OSError):
                (await connecting).close()
            raise
        return connecting.result()

    async def _handshake(
        self,
        settings: HostSettings,
        client: Client,
        sock: socket.socket | None,
        tunnel: asyncssh.SSHClientConnection | None,
    ) -> asyncssh.SSHClientConnection:
        self._host_keys.read(settings)
        by_others = await vouched(settings, sock)
        client.tried += by_others.offered
        client.left_out = by_others.left_out
        connection = await asyncssh.connect(
            settings.hostname,
            settings.port,
            sock=sock,
            tunnel=tunnel or (),
            config=[],
            client_factory=lambda: client,
            username=settings.user,
            known_hosts=_none_known,
            host_key_alias=settings.known_as,
            client_keys=None,
            agent_path=None,
            x509_trusted_certs=None,
            public_key_auth=settings.public_key,
            password_auth=settings.password,
            kbdint_auth=settings.keyboard,
            preferred_auth=settings.preferred,
            compression_algs=["zlib@openssh.com", "none"] if settings.compression else ["none"],
            keepalive_interval=KEEPALIVE,
            keepalive_count_max=KEEPALIVES,
            connect_timeout=None,
            login_timeout=0,
            proxy_command=None,
            **by_others.options,
            **self._algorithms(settings),
        )
        if isinstance(connection, ThinConnection):
            connection.slim()
        return connection

    def _algorithms(self, settings: HostSettings) -> dict[str, Any]:
        """Algorithms of the configuration, as far as asyncssh knows them; else the fastest cipher first."""
        chosen: dict[str, Any] = {
            "encryption_algs": _fast_first(),
            "server_host_key_algs": self._host_keys.algorithms(settings),
        }
        if not settings.algorithms:
            return chosen
        possible = {
            "kex_algs": get_kex_algs(),
            "encryption_algs": get_encryption_algs(),
            "mac_algs": get_mac_algs(),
            "server_host_key_algs": get_public_key_algs() + get_certificate_algs(),
            "signature_algs": get_public_key_algs(),
        }
        for argument, text in settings.algorithms:
            names = [name.decode() for name in possible[argument]]
            sign = text[0] if text[0] in "+-^" else ""
            known = [name for part in text.lstrip("+-^").split(",") for name in names if match_list(name, part)]
            if known:
                chosen[argument] = sign + ",".join(known)
        return chosen

    # --- jump hosts -----------------------------------------------------------------------------------------------

    async def _tunnel(
        self, settings: HostSettings, node: str, waiting: Callable[[str], None]
    ) -> asyncssh.SSHClientConnection | None:
        """The shared connection to the last jump host before ``settings``; None when there is none."""
        jump = await self._jump(settings)
        if jump is None:
            return None
        await self._refuse_circle(jump)
        task = self._tunnels.get(jump)
        if task is None or (task.done() and (task.cancelled() or task.exception() or task.result().is_closed())):
            task = asyncio.ensure_future(self._open_tunnel(jump, node, waiting))
            self._tunnels[jump] = task
        try:
            return await asyncio.shield(task)
        except TransportError as error:
            raise type(error)(f"jump host {jump.original}: {error}") from None

    async def _open_tunnel(
        self, jump: HostSettings, node: str, waiting: Callable[[str], None]
    ) -> asyncssh.SSHClientConnection:
        connection, client = await self.open(jump, node, waiting)
        if client.judgement.state != "known":  # let in because checking is off: OpenSSH forwards nothing then
            connection.abort()
            raise Refused(
                f"{jump.known_name} shows another host key than before ({client.judgement.place}): "
                "nothing is passed on through it, be its key checked or not"
            )
        return connection

    async def _jump(self, settings: HostSettings) -> HostSettings | None:
        """Settings of the last jump host before a host; the ones before that are its own jumps."""
        if not settings.jumps:
            return None
        *before, last = settings.jumps
        if last not in self._jumps:
            self._jumps[last] = await asyncio.to_thread(self.settings, last.host, last.user, last.port)
        jump = self._jumps[last]
        if before:
            jump = replace(jump, jumps=tuple(before), proxy_command="")
        # "Host *" with a ProxyJump names the jump host too.
        return None if (jump.hostname, jump.port) == (settings.hostname, settings.port) else jump

    async def _refuse_circle(self, jump: HostSettings) -> None:
        current = jump
        for _ in range(_JUMP_LIMIT):
            further = await self._jump(current)
            if further is None:
                return
            current = further
        raise Refused(f"ProxyJump of {jump.original} goes round in circles, or over more than {_JUMP_LIMIT} hosts")


def _none_known(_host: str, _address: str, _port: int | None) -> tuple[list[Any], list[Any], list[Any]]:
    """Host keys that asyncssh itself knows: none, the client judges them all."""
    return [], [], []


@cache
def _fast_first() -> list[str]:
    usual = [name.decode() for name in get_default_encryption_algs()]
    return sorted(usual, key=lambda name: name != _FAST)
