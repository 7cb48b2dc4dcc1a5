"""SSH servers inside the test's own event loop, on port 0, as different from one another as real ones are."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import asyncssh

from collectors.fleet.sink import HostKeyQuestion
from collectors.fleet.ssh.connector import Connector
from collectors.fleet.ssh.node import Ssh
from collectors.fleet.targets.chosen import Target

Handler = Callable[["asyncssh.SSHServerProcess[bytes]"], Awaitable[None]]


@cache
def key(name: str) -> asyncssh.SSHKey:
    """A private key that is the same whenever the same name is asked for; ``ec-…`` is of another kind."""
    kind = "ecdsa-sha2-nistp256" if name.startswith("ec-") else "ssh-ed25519"
    return asyncssh.generate_private_key(kind, comment=name)


def public(name: str) -> str:
    """Kind and base64 of a key's public half."""
    return " ".join(key(name).export_public_key("openssh").decode().split()[:2])


async def shell(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run the command in a real shell here."""
    child = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", process.command or "", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    feeding = asyncio.ensure_future(_feed(process, child.stdin))
    try:
        await asyncio.gather(_copy(child.stdout, process.stdout), _copy(child.stderr, process.stderr))
        status = await child.wait()
    finally:
        feeding.cancel()
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
    if status < 0:
        process.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))
    else:
        process.exit(status)


async def _feed(process: asyncssh.SSHServerProcess[bytes], stdin: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncssh.Error):
        while data := await process.stdin.read(65536):
            stdin.write(data)
            await stdin.drain()
    stdin.close()


async def _copy(source: asyncio.StreamReader, to: asyncssh.SSHWriter[bytes]) -> None:
    while data := await source.read(65536):
        to.write(data)
        await to.drain()


@dataclass(slots=True)
class Host:
    """One server's character, and what it saw."""

    host_keys: Sequence[str] = ("host",)
    host_certificate: asyncssh.SSHCertificate | None = None
    user_keys: Sequence[str] = ("user",)
    user_authority: str = ""
    handler: Handler = shell
    port: int = 0
    connections: list[asyncssh.SSHServerConnection] = field(default_factory=list)
    made: int = 0
    """Connections ever made."""


class _Server(asyncssh.SSHServer):
    def __init__(self, host: Host) -> None:
        self._host = host
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._host.connections.append(conn)
        self._host.made += 1

    def begin_auth(self, username: str) -> bool:
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection in self._host.connections:
            self._host.connections.remove(self._connection)

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, offered: asyncssh.SSHKey) -> bool:
        return any(key(name).public_data == offered.public_data for name in self._host.user_keys)

    def validate_ca_key(self, username: str, offered: asyncssh.SSHKey) -> bool:
        authority = self._host.user_authority
        return bool(authority) and key(authority).public_data == offered.public_data

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return True

    def session_requested(self) -> asyncssh.SSHServerProcess[bytes]:
        return asyncssh.SSHServerProcess(self._host.handler, None, 3, False)


@asynccontextmanager
async def serve(host: Host | None = None) -> AsyncIterator[Host]:
    """A server on a free port of the loopback, for as long as the block lasts."""
    host = host or Host()
    pairs: list[object] = [key(name) for name in host.host_keys]
    if host.host_certificate is not None:
        pairs[0] = (key(host.host_keys[0]), host.host_certificate)
    server = await asyncssh.listen(
        "127.0.0.1", host.port, server_factory=lambda: _Server(host), server_host_keys=pairs, encoding=None,
        line_editor=False, login_timeout=20,
    )  # fmt: skip
    host.port = server.get_port()
    try:
        yield host
    finally:
        server.close()
        for connection in list(host.connections):
            connection.abort()
        await server.wait_closed()
        await asyncio.sleep(0)


class Person:
    """Somebody who answers questions from a list, and remembers them; an empty list declines."""

    def __init__(self, *answers: bool | None) -> None:
        self.answers = list(answers)
        self.questions: list[HostKeyQuestion] = []

    async def ask(self, question: HostKeyQuestion) -> bool | None:
        """Answer the next one."""
        self.questions.append(question)
        return self.answers.pop(0) if self.answers else False


@dataclass(slots=True)
class Home:
    """A user's ~/.ssh in a folder."""

    folder: Path
    lines: list[str] = field(default_factory=list)

    @property
    def known_hosts(self) -> Path:
        """Its known_hosts."""
        return self.folder / "known_hosts"

    @property
    def config(self) -> Path:
        """Its ssh_config, written from :attr:`lines`."""
        path = self.folder / "config"
        path.write_text("\n".join(self.lines) + "\n")
        return path

    def key(self, name: str, *, passphrase: str | None = None, form: str = "openssh") -> Path:
        """Write a private key."""
        path = self.folder / name
        path.write_bytes(key(name).export_private_key(form, passphrase, rounds=50))
        path.chmod(0o600)
        return path

    def knows(self, host: Host, name: str = "host") -> None:
        """Add a host's key to known_hosts."""
        with self.known_hosts.open("a") as file:
            file.write(f"[127.0.0.1]:{host.port} {public(name)}\n")

    def node(self, alias: str, host: Host, *lines: str) -> None:
        """Add a host to the configuration."""
        self.lines += [f"Host {alias}", "HostName 127.0.0.1", f"Port {host.port}", "User tester", *lines]


def home(folder: Path) -> Home:
    """A ~/.ssh whose known_hosts is used for every host, and whose agent is none."""
    made = Home(folder)
    made.lines = [f"UserKnownHostsFile {made.known_hosts}", "GlobalKnownHostsFile none", "IdentityAgent none"]
    return made


@asynccontextmanager
async def nodes(user: Home, person: Person, *names: str) -> AsyncIterator[list[Ssh]]:
    """Transports to aliases of the configuration, not connected yet; ``node0`` when none is named."""
    connector = Connector(user.config, person.ask)
    found = [Ssh(Target(name, name), connector) for name in names or ("node0",)]
    try:
        yield found
    finally:
        for node in found:
            await node.close()
        await connector.close()


Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listen(peer: Peer) -> AsyncIterator[int]:
    """A TCP server that is no SSH server; gives its port, and ends every conversation with the block."""
    talks: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        try:
            await peer(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks)
