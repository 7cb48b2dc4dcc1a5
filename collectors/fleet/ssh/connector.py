"""SSH connections of a fleet: a limit on handshakes, shared jump hosts, questions, retries of dropped handshakes."""

from __future__ import annotations

import asyncio
import random
import shlex
import socket
import tempfile
from contextlib import suppress
from dataclasses import replace
from typing import IO, Any

import asyncssh

from collectors.fleet.clean import clean_bytes
from collectors.fleet.ssh.asking import Passwords, Question, Questions
from collectors.fleet.ssh.client import Client
from collectors.fleet.ssh.config import HostSettings, SshConfig
from collectors.fleet.ssh.keys import KeyRing
from collectors.fleet.ssh.known_hosts import HostKeys, fingerprint
from collectors.fleet.ssh.reasons import Dropped, explain, unfinished
from collectors.fleet.ssh.sockets import connect
from collectors.fleet.ssh.turn import Turn, Waiting
from collectors.fleet.targets.chosen import TargetError, parse
from collectors.fleet.transport import Declined, Refused, SshConfigError, TransportError

HANDSHAKES = 8
"""Handshakes at once: more would stall the screen and overrun sshd's MaxStartups."""
TIMEOUT = 10.0
"""Seconds for connect and handshake without ConnectTimeout; a person's time to answer does not count."""
PATIENCE = 0.25
"""Seconds for a TCP connect before the handshake's place goes to another host."""
DROPS = 6
"""Retries of a handshake that the far side dropped."""
_FAST = "^aes128-gcm@openssh.com"
_JUMPS = 8


class Connector:
    """State that the connections of one fleet share."""

    def __init__(self, config: SshConfig, questions: Questions) -> None:
        self._config = config
        self._questions = questions
        self._passwords = Passwords()
        self._host_keys = HostKeys()
        self._ring = KeyRing(questions)
        self._places = asyncio.Semaphore(HANDSHAKES)
        self._tunnels: dict[HostSettings, asyncio.Task[asyncssh.SSHClientConnection]] = {}
        self._jumps: dict[tuple[str, ...], HostSettings] = {}

    def settings(self, host: str, user: str | None, port: int | None) -> HostSettings:
        """Look a host up and read its known_hosts. Blocks for ``Match exec``. Raises :class:`SshConfigError`."""
        settings = self._config.settings(host, user, port)
        self._host_keys.read(settings)
        return settings

    async def open(
        self, settings: HostSettings, node: str, waiting: Waiting
    ) -> tuple[asyncssh.SSHClientConnection, Client]:
        """Open a connection. Raises :class:`Refused` when a person must act first, else :class:`TransportError`."""
        drops = 0
        certificates = bool(self._host_keys.authorities(settings))
        while True:
            tunnel = await self._tunnel(settings, node, waiting)
            attempt = self._passwords.attempt(settings.user, settings.known_as, settings.port)
            client = Client(settings, node, self._host_keys, self._ring, attempt, self._questions, waiting)
            try:
                return await self._shake_hands(settings, client, tunnel, certificates), client
            except asyncssh.HostKeyNotVerifiable as error:
                if client.shown is not None:
                    await self._settle(client, client.shown, node, waiting)
                elif certificates and "revoked" not in error.reason:
                    certificates = False  # as OpenSSH: an untrusted certificate still contains a key
                else:
                    raise Refused(f"{settings.known_name}: no connection: {error.reason}") from None
            except Dropped as error:
                drops += 1
                if drops > DROPS:
                    raise
                waiting(f"{error}; trying again")
                await asyncio.sleep(random.uniform(0.5, 1.5) * 0.2 * 1.6**drops)  # noqa: S311 (jitter, no secret)

    def ask_again(self) -> None:
        """Ask again where the person declined."""
        self._passwords.ask_again()

    async def close(self) -> None:
        """Close jump connections and agents."""
        for task in self._tunnels.values():
            task.cancel()
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().abort()
        self._tunnels.clear()
        self._ring.close()

    # --- one handshake --------------------------------------------------------------------------------------------

    async def _shake_hands(
        self, settings: HostSettings, client: Client, tunnel: asyncssh.SSHClientConnection | None, certificates: bool
    ) -> asyncssh.SSHClientConnection:
        seconds = settings.timeout or TIMEOUT
        reached = tunnel is not None
        how: dict[str, Any] = {"tunnel": tunnel}
        with tempfile.NamedTemporaryFile() as complaints:
            try:
                async with asyncio.timeout(None) as deadline, Turn(self._places, deadline, seconds) as turn:
                    told, client.waiting = client.waiting, turn.resting(client.waiting)
                    if settings.proxy_command:
                        how["proxy_command"] = _proxy(settings.proxy_command, complaints.name)
                    elif tunnel is None:
                        how["sock"] = await self._reach(settings, turn)
                        reached = True
                    connection = await self._handshake(settings, client, certificates, how)
                    client.waiting = told
                    return connection
            except asyncssh.HostKeyNotVerifiable:
                raise
            except (OSError, asyncssh.Error, ValueError, TransportError) as error:
                if complaint := _last_line(complaints.file):
                    raise TransportError(f"ProxyCommand of {settings.original}: {complaint}") from None
                if client.declined and isinstance(error, asyncssh.PermissionDenied):
                    raise Declined(f"{settings.user}@{settings.host}: the question was not answered") from None
                if reached and isinstance(error, TimeoutError):
                    raise unfinished(settings, seconds) from None
                raise explain(error, settings, client.tried) from None

    async def _reach(self, settings: HostSettings, turn: Turn) -> socket.socket:
        """Connect; a host that takes long gives its place to another, since it may never answer."""
        connecting = asyncio.ensure_future(connect(settings))
        try:
            done, _ = await asyncio.wait({connecting}, timeout=PATIENCE)
            if not done:
                turn.give_up_place()
                await connecting
                await turn.begin()
        except BaseException:
            connecting.cancel()
            with suppress(asyncio.CancelledError, OSError):
                (await connecting).close()
            raise
        return connecting.result()

    async def _handshake(
        self, settings: HostSettings, client: Client, certificates: bool, how: dict[str, Any]
    ) -> asyncssh.SSHClientConnection:
        keys = self._host_keys
        known: Any = ([], keys.authorities(settings) if certificates else [], keys.revoked(settings))
        if not settings.says("HostKeyAlgorithms"):
            how["server_host_key_algs"] = keys.algorithms(settings, certificates=certificates)
        if not settings.says("Ciphers"):
            how["encryption_algs"] = _FAST
        # With config=None, what the options were made of counts, and nothing is read again.
        return await asyncssh.connect(
            settings.host, settings.port, options=settings.options, config=None, reload=False, final=False,
            client_factory=lambda: client, known_hosts=lambda *_: known, **how,
        )  # fmt: skip

    # --- host keys that are not trusted ---------------------------------------------------------------------------

    async def _settle(self, client: Client, key: asyncssh.SSHKey, node: str, waiting: Waiting) -> None:
        """Decide on an unknown host key; returns when it is trusted now, else raises :class:`Refused`."""
        settings, judgement = client.settings, client.judgement
        name, shown = settings.known_name, fingerprint(key)
        if judgement.state == "changed":
            raise Refused(
                f"{name} shows another host key than before ({shown}). If it was set up anew, remove "
                f"{judgement.place} (ssh-keygen -R {name}); if not, somebody may be listening"
            )
        said = await self._config.openssh_says(settings)
        strict, hashed = said.get("stricthostkeychecking", "ask"), said.get("hashknownhosts") == "yes"
        if strict in ("accept-new", "no", "off", "false"):
            self._remember(settings, key, hashed=hashed)
            return
        if strict in ("yes", "true") or self._questions.batch or said.get("batchmode") == "yes":
            raise Refused(f"{name} is in no known_hosts file, and may not be asked about: ssh {settings.original} once")
        detail = f"{shown}\nThe authenticity of {name} cannot be established."
        if judgement.place:
            detail += f"\nOn port 22 it has another key: {judgement.place}"
        waiting("waits for an answer: is this the right host?")
        answer = await self._questions.ask(Question(node, "host_key", f"Trust {name}?", detail, secret=False))
        waiting("")
        if answer == "yes":
            self._remember(settings, key, hashed=hashed)
        elif answer == "once":
            self._host_keys.accept(settings, key, remember=False)
        else:
            raise Declined(f"{name}: its host key was not accepted ({shown})")

    def _remember(self, settings: HostSettings, key: asyncssh.SSHKey, *, hashed: bool) -> None:
        try:
            self._host_keys.accept(settings, key, remember=True, hashed=hashed)
        except OSError as error:
            # Trusted for this run all the same: the person has said so.
            self._questions.tell(
                f"{settings.learned} cannot be written ({error.strerror}): "
                f"the host key of {settings.known_name} is trusted for this run alone"
            )

    # --- jump hosts -----------------------------------------------------------------------------------------------

    async def _tunnel(self, settings: HostSettings, node: str, waiting: Waiting) -> asyncssh.SSHClientConnection | None:
        """The shared connection to the last jump host before ``settings``; None when there is none."""
        jump = await self._jump(settings)
        if jump is None:
            return None
        await self._refuse_circle(jump)
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
            jump = await asyncio.to_thread(self.settings, target.host, target.user, target.port)
            jump = replace(jump, jumps=tuple(before), proxy_command="") if before else jump
            self._jumps.setdefault(settings.jumps, jump)  # another connection may have looked it up meanwhile
        jump = self._jumps[settings.jumps]
        # "Host *" with a ProxyJump names the jump host too.
        return None if (jump.host, jump.port) == (settings.host, settings.port) else jump

    async def _refuse_circle(self, jump: HostSettings) -> None:
        current = jump
        for _ in range(_JUMPS):
            further = await self._jump(current)
            if further is None:
                return
            current = further
        raise Refused(f"ProxyJump of {jump.original} goes round in circles, or over more than {_JUMPS} hosts")


def _proxy(command: str, complaints: str) -> list[str]:
    """Words that run a ProxyCommand with its standard error in a file.

    asyncssh reads standard error as the host's output, and its end as the end of the connection; so the shell, which
    holds standard error open, must not exec the command.
    """
    return ["/bin/sh", "-c", f"{{ {command}\n}} 2>>{shlex.quote(complaints)}; exit $?"]


def _last_line(said: IO[bytes]) -> str:
    said.seek(0)
    lines = clean_bytes(said.read(1 << 16)).strip().splitlines()
    return lines[-1].strip() if lines else ""
