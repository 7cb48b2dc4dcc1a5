"""SSH connections of a fleet: a limit on handshakes, shared jump hosts, questions."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncssh

from collectors.fleet.ssh.asking import Passwords, Question, Questions
from collectors.fleet.ssh.client import Client
from collectors.fleet.ssh.config import HostSettings, SshConfig
from collectors.fleet.ssh.errors import explain, unfinished
from collectors.fleet.ssh.keys import KeyRing
from collectors.fleet.ssh.known_hosts import HostKeys, KnownKeys, remember
from collectors.fleet.targets.chosen import TargetError, parse
from collectors.fleet.transport import Declined, Refused, SshConfigError, TransportError, Waiting

REACHING = 64
"""Hosts that are looked up and connected to at once."""
HANDSHAKES = 8
"""Handshakes at once: more would stall the screen and overrun sshd's MaxStartups."""
TIMEOUT = 10.0
"""Seconds for the connection, and again for the handshake, without ConnectTimeout; a person's time does not count."""
_FAST = "^aes128-gcm@openssh.com"
NEXT_ADDRESS = 3.0
"""Seconds for each address of a host but the last."""


class Connector:
    """State that the connections of one fleet share."""

    def __init__(self, ssh_config: Path | None, questions: Questions) -> None:
        """Reads the ssh_config. Raises :class:`SshConfigError`."""
        self._config = SshConfig(ssh_config)
        self._questions = questions
        self._passwords = Passwords()
        self._host_keys = HostKeys()
        self._ring = KeyRing(questions)
        self._reaching = asyncio.Semaphore(REACHING)
        self._handshakes = asyncio.Semaphore(HANDSHAKES)
        self._tunnels: dict[HostSettings, asyncio.Task[asyncssh.SSHClientConnection]] = {}
        self._jumps: dict[tuple[str, ...], HostSettings] = {}

    async def settings(self, host: str, user: str | None, port: int | None) -> HostSettings:
        """Look a host up in the ssh_config. Raises :class:`SshConfigError`."""
        async with self._reaching:
            return await asyncio.to_thread(self._config.settings, host, user, port)

    async def open(
        self, settings: HostSettings, node: str, waiting: Waiting
    ) -> tuple[asyncssh.SSHClientConnection, Client]:
        """Open a connection. Raises :class:`Refused` when a person must act first, else :class:`TransportError`."""
        certificates = True
        while True:
            tunnel = await self._tunnel(settings, node, waiting)
            known = await asyncio.to_thread(self._host_keys.known, settings)
            certificates = certificates and bool(known.authorities)
            client = Client(settings, node, known, self._ring, self._passwords, self._questions, waiting)
            try:
                return await self._attempt(client, known, tunnel, certificates=certificates), client
            except asyncssh.HostKeyNotVerifiable as error:
                if client.shown is not None:
                    await self._settle(client, known, client.shown, node)
                elif certificates and "revoked" not in error.reason:
                    certificates = False  # as OpenSSH: an untrusted certificate still contains a key
                else:
                    raise Refused(f"{settings.known_name}: no connection: {error.reason}") from None

    def ask_again(self) -> None:
        """Ask again where the person declined."""
        self._passwords.declined = False

    async def close(self) -> None:
        """Close jump connections and agents."""
        for task in self._tunnels.values():
            task.cancel()
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().abort()
        self._tunnels.clear()
        self._ring.close()

    # --- one attempt ----------------------------------------------------------------------------------------------

    async def _attempt(
        self, client: Client, known: KnownKeys, tunnel: asyncssh.SSHClientConnection | None, *, certificates: bool
    ) -> asyncssh.SSHClientConnection:
        settings = client.settings
        how: dict[str, Any] = {"tunnel": tunnel}
        seconds, reached = settings.timeout or TIMEOUT, False
        try:
            if settings.proxy_command:
                how["proxy_command"] = proxy_words(settings.proxy_command)
            elif tunnel is None:
                async with self._reaching, asyncio.timeout(seconds):
                    how["sock"] = await open_socket(settings)
            reached = not settings.proxy_command
            async with self._handshake(client, seconds):
                return await self._connect(settings, client, known, certificates, how)
        except asyncssh.HostKeyNotVerifiable:
            raise
        except (OSError, asyncssh.Error, ValueError, TransportError) as error:
            if settings.proxy_command and isinstance(error, (OSError, asyncssh.ConnectionLost)):
                why = f"the ProxyCommand of {settings.original} gives no connection: try ssh {settings.original}"
                raise TransportError(why) from None
            if client.declined and isinstance(error, asyncssh.PermissionDenied):
                raise Declined(f"{settings.user}@{settings.host}: the question was not answered") from None
            if reached and isinstance(error, TimeoutError):
                raise unfinished(settings, seconds) from None
            raise explain(error, settings, client.tried) from None

    @asynccontextmanager
    async def _handshake(self, client: Client, seconds: float) -> AsyncIterator[None]:
        """A place among the handshakes, and a deadline; while a person is asked, both are given up."""
        told, loop, held = client.waiting, asyncio.get_running_loop(), True

        def waiting(reason: str) -> None:
            nonlocal held
            told(reason)
            if reason and held:
                held = False
                self._handshakes.release()
            if not deadline.expired():
                deadline.reschedule(None if reason else loop.time() + seconds)

        await self._handshakes.acquire()
        client.waiting = waiting
        try:
            async with asyncio.timeout(seconds) as deadline:
                yield
        finally:
            client.waiting = told
            if held:
                self._handshakes.release()

    @staticmethod
    async def _connect(
        settings: HostSettings, client: Client, known: KnownKeys, certificates: bool, how: dict[str, Any]
    ) -> asyncssh.SSHClientConnection:
        trusted: Any = ([], known.authorities if certificates else [], known.revoked)
        if not settings.says("HostKeyAlgorithms"):
            how["server_host_key_algs"] = known.algorithms(certificates=certificates)
        if not settings.says("Ciphers"):
            how["encryption_algs"] = _FAST
        # With config=None, what the options were made of counts, and nothing is read again.
        return await asyncssh.connect(
            settings.host, settings.port, options=settings.options, config=None, reload=False, final=False,
            client_factory=lambda: client, known_hosts=lambda *_: trusted, **how,
        )  # fmt: skip

    # --- host keys that are not trusted ---------------------------------------------------------------------------

    async def _settle(self, client: Client, known: KnownKeys, key: asyncssh.SSHKey, node: str) -> None:
        """Decide on a host key that is not trusted; returns when it is now, else raises :class:`Refused`."""
        settings = client.settings
        name, shown = settings.known_name, f"{key.get_algorithm()} {key.get_fingerprint()}"
        if known.judge(key) == "changed":
            raise Refused(
                f"{name} shows another host key than before ({shown}). If it was set up anew, remove the old key "
                f"(ssh-keygen -R '{name}'); if not, somebody may be listening"
            )
        said = await self._config.openssh_says(settings)
        strict = said.get("stricthostkeychecking", "ask")
        if strict in ("accept-new", "no", "off", "false"):
            self._remember(settings, key)
            return
        if strict in ("yes", "true") or self._questions.batch or said.get("batchmode") == "yes":
            raise Refused(f"{name} is in no known_hosts file, and may not be asked about: ssh {settings.original} once")
        detail = f"{shown}\nThe authenticity of {name} cannot be established."
        client.waiting("waits for an answer: is this the right host?")
        answer = await self._questions.ask(Question(node, "host_key", f"Trust {name}?", detail, secret=False))
        client.waiting("")
        if answer == "yes":
            self._remember(settings, key)
        elif answer == "once":
            self._host_keys.accept(settings, key)
        else:
            raise Declined(f"{name}: its host key was not accepted ({shown})")

    def _remember(self, settings: HostSettings, key: asyncssh.SSHKey) -> None:
        """Trust a key for this run, and write it to the user's file."""
        self._host_keys.accept(settings, key)
        for path in settings.known_hosts[:1]:
            try:
                remember(path, settings.known_name, key)
            except OSError as error:
                self._questions.tell(
                    f"{path} cannot be written ({error.strerror}): "
                    f"the host key of {settings.known_name} is trusted for this run alone"
                )

    # --- jump hosts -----------------------------------------------------------------------------------------------

    async def _tunnel(self, settings: HostSettings, node: str, waiting: Waiting) -> asyncssh.SSHClientConnection | None:
        """The shared connection to the last jump host before ``settings``; None when there is none."""
        jump = await self._jump(settings)
        if jump is None:
            return None
        task = self._tunnels.get(jump)
        if task is None or (task.done() and (task.cancelled() or task.exception() or task.result().is_closed())):
            task = asyncio.ensure_future(self._open_jump(jump, node, waiting))
            self._tunnels[jump] = task
        try:
            return await asyncio.shield(task)
        except TransportError as error:
            raise type(error)(f"jump host {jump.original}: {error}") from None

    async def _open_jump(self, jump: HostSettings, node: str, waiting: Waiting) -> asyncssh.SSHClientConnection:
        connection, _ = await self.open(jump, node, waiting)
        return connection

    async def _jump(self, settings: HostSettings) -> HostSettings | None:
        """Settings of the last jump host before a host; the ones before that are its own jumps."""
        if not settings.jumps:
            return None
        if settings.jumps not in self._jumps:
            *before, last = settings.jumps
            try:
                (target,) = parse([last])
            except (TargetError, ValueError):
                raise SshConfigError(f"ProxyJump of {settings.original}: {last!r} is no host") from None
            jump = await self.settings(target.host, target.user, target.port)
            jump = replace(jump, jumps=tuple(before), proxy_command="") if before else jump
            self._jumps.setdefault(settings.jumps, jump)  # another connection may have looked it up meanwhile
        jump = self._jumps[settings.jumps]
        # "Host *" with a ProxyJump names the jump host too.
        return None if (jump.host, jump.port) == (settings.host, settings.port) else jump


async def open_socket(settings: HostSettings) -> socket.socket:
    """Connect to the first of a host's addresses that answers. Raises :class:`OSError`."""
    loop, family = asyncio.get_running_loop(), settings.options.family
    try:
        found = await loop.getaddrinfo(settings.host, settings.port, family=family, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "no host name") from None
    for number, (kind, _, _, _, address) in enumerate(found, start=1):
        last = number == len(found)
        sock = socket.socket(kind, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            if settings.options.local_addr is not None:
                sock.bind(settings.options.local_addr)
            async with asyncio.timeout(None if last else NEXT_ADDRESS):
                await loop.sock_connect(sock, address)
        except BaseException as error:
            sock.close()
            if last or not isinstance(error, OSError):
                raise
        else:
            return sock
    raise OSError(f"no address for {settings.host}")


def proxy_words(command: str) -> list[str]:
    """Words that run a ProxyCommand without its standard error.

    asyncssh reads standard error as the host's output, and its end as the end of the connection; so the shell, which
    holds standard error open, must not exec the command.
    """
    return ["/bin/sh", "-c", f"{{ {command}\n}} 2>/dev/null; exit $?"]
