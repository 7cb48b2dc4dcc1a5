"""The keys of ssh-agent and of the user's identity files, read by asyncssh without asking for a passphrase."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path

import asyncssh

from collectors.fleet.ssh.config import HostSettings


class Keys:
    """Keys for the connections of one fleet: files are read once, and each agent has one connection."""

    def __init__(self) -> None:
        self._agents: dict[str, asyncssh.SSHAgentClient] = {}
        self._files: dict[tuple[Path, ...], list[asyncssh.SSHKeyPair]] = {}

    async def offers(self, settings: HostSettings) -> list[asyncssh.SSHKeyPair]:
        """Keys to offer to a host: the agent's, then keys of files that the agent does not hold."""
        paths = (*settings.identities, *settings.certificates)
        if paths not in self._files:
            self._files[paths] = await asyncio.to_thread(_read, settings)
        files = self._files[paths]
        agent = await self._held(settings.agent) if settings.agent else []
        if settings.value("IdentitiesOnly"):
            named = {_public(path) for path in settings.identities}
            agent = [pair for pair in agent if pair.key_public_data in named]
        held = {pair.key_public_data for pair in agent}
        # asyncssh stores in the pair which signature algorithm a server wants, so connections must not share a pair
        return [copy.copy(pair) for pair in (*agent, *(pair for pair in files if pair.key_public_data not in held))]

    def close(self) -> None:
        """Close the connections to agents."""
        for agent in self._agents.values():
            agent.close()

    async def _held(self, path: str) -> list[asyncssh.SSHKeyPair]:
        agent = self._agents.setdefault(path, asyncssh.SSHAgentClient(path))
        try:
            return list(await agent.get_keys())
        except (OSError, ValueError):
            return []  # no agent listens at this path


def _read(settings: HostSettings) -> list[asyncssh.SSHKeyPair]:
    """Keys of the identity files; like OpenSSH, it skips a file without a usable key."""
    found: list[asyncssh.SSHKeyPair] = []
    certificates = [str(path) for path in settings.certificates if path.is_file()]
    for path in settings.identities:
        try:
            found += asyncssh.load_keypairs(path, None, certificates, ignore_encrypted=True)
        except (OSError, asyncssh.KeyImportError):
            continue
    return found


def _public(path: Path) -> bytes | None:
    """The public key in ``path.pub``, or in the named file itself."""
    for candidate in (path.with_name(f"{path.name}.pub"), path):
        try:
            return asyncssh.read_public_key(candidate).public_data
        except (OSError, asyncssh.KeyImportError):
            continue
    return None
