"""The demo's SSH servers: one per node, on the loopback interface, with keys for this run only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import asyncssh

from hangtop.demo import shell

USER = "demo"
LOOPBACK = "127.0.0.1"


class Servers:
    """All nodes' servers."""

    def __init__(self, folder: Path, environments: Mapping[str, Mapping[str, str]]) -> None:
        """``environments``: environment of commands by name of the node."""
        self._folder = folder
        self._environments = environments
        self._listening: list[asyncssh.SSHAcceptor] = []

    async def start(self) -> Path:
        """Listen on one port per node, write keys, known_hosts and ssh_config, and return the path of ssh_config."""
        user_key = asyncssh.generate_private_key("ssh-ed25519")
        identity = self._folder / "id_ed25519"
        identity.touch(mode=0o600)
        identity.write_bytes(user_key.export_private_key())
        allowed = asyncssh.import_authorized_keys(user_key.export_public_key().decode())
        known, config = [], []
        for name, environment in self._environments.items():
            host_key = asyncssh.generate_private_key("ssh-ed25519")
            listening = await self._listen(environment, host_key, allowed)
            self._listening.append(listening)
            port = listening.get_port()
            known.append(f"[{LOOPBACK}]:{port} {host_key.export_public_key().decode().strip()}")
            config.append(
                f"Host {name}\n  HostName {LOOPBACK}\n  Port {port}\n  User {USER}\n  IdentityFile {identity}\n"
                f"  IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile {self._folder / 'known_hosts'}\n"
                "  StrictHostKeyChecking yes\n"
            )
        (self._folder / "known_hosts").write_text("\n".join([*known, ""]))
        path = self._folder / "ssh_config"
        path.write_text("\n".join(config))
        return path

    async def _listen(
        self, environment: Mapping[str, str], host_key: asyncssh.SSHKey, allowed: asyncssh.SSHAuthorizedKeys
    ) -> asyncssh.SSHAcceptor:
        async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
            await shell.run(process, environment)

        return await asyncssh.create_server(
            asyncssh.SSHServer,
            LOOPBACK,
            0,
            server_host_keys=[host_key],
            authorized_client_keys=allowed,
            process_factory=serve,
            encoding=None,
            password_auth=False,
            kbdint_auth=False,
            agent_forwarding=False,
            allow_pty=False,
        )

    async def close(self) -> None:
        """Stop listening and close every connection."""
        for listening in self._listening:
            listening.close()
        await asyncio.gather(*(listening.wait_closed() for listening in self._listening))
