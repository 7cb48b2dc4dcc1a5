"""The user's keys: read once for all nodes; a passphrase is asked for once, when a server wants more keys."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from collectors.fleet.ssh.asking import Question, Questions
from collectors.fleet.ssh.config import HostSettings

_TRIES = 3
Offer = asyncssh.SSHKeyPair | asyncssh.SSHKey | tuple[asyncssh.SSHKey, asyncssh.SSHCertificate]
"""A key to log in with, as asyncssh takes it."""


@dataclass(slots=True)
class Identity:
    """One identity file."""

    path: Path
    public: bytes | None = None
    """Its public key, where it is readable."""
    key: asyncssh.SSHKey | None = None
    """The private key, once it is decrypted."""
    encrypted: bytes = b""
    """The file's content, where it needs a passphrase that was not asked for yet."""
    certificate: asyncssh.SSHCertificate | None = None

    def offers(self) -> list[Offer]:
        """The key, before it with its certificate."""
        if self.key is None:
            return []
        return [(self.key, self.certificate), self.key] if self.certificate is not None else [self.key]


class KeyRing:
    """Keys of the user's identity files and agents."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._identities: dict[Path, Identity] = {}
        self._agents: dict[str, asyncssh.SSHAgentClient] = {}
        self._turn = asyncio.Lock()

    async def offers(self, settings: HostSettings) -> tuple[list[Offer], list[Identity]]:
        """Keys to offer to a server, the agent's first, and encrypted identities, to be offered last."""
        for path in settings.identities:
            if path not in self._identities:
                found = await asyncio.to_thread(_read, path, settings.certificates)
                self._identities.setdefault(path, found)
        identities = [self._identities[path] for path in settings.identities]
        agent = await self._agent_keys(settings.agent)
        named = {identity.public for identity in identities if identity.public}
        held = {pair.key_public_data for pair in agent}
        if settings.says("IdentitiesOnly"):
            agent = [pair for pair in agent if pair.key_public_data in named]
        agent.sort(key=lambda pair: pair.key_public_data not in named)
        # asyncssh notes in the pair which signature algorithm a server wants, so connections must not share one.
        offers: list[Offer] = [copy.copy(pair) for pair in agent]
        rest = [identity for identity in identities if identity.public not in held]
        offers += [offer for identity in rest for offer in identity.offers()]
        return offers, [identity for identity in rest if identity.encrypted]

    async def unlock(self, identity: Identity, node: str, waiting: Callable[[str], None]) -> list[Offer]:
        """The key of an encrypted identity; none when the person does not give its passphrase, which is asked once."""
        waiting(f"waits for an answer: the passphrase of {identity.path}")
        try:
            async with self._turn:
                for _ in range(_TRIES if identity.encrypted else 0):
                    question = Question(node, "passphrase", f"Passphrase of {identity.path}")
                    answer = await self._questions.ask(question)
                    if answer is None:
                        break
                    try:
                        identity.key = await asyncio.to_thread(asyncssh.import_private_key, identity.encrypted, answer)
                        break
                    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError):
                        continue
                identity.encrypted = b""
                return identity.offers()
        finally:
            waiting("")

    def close(self) -> None:
        """Close the connections to agents."""
        for agent in self._agents.values():
            agent.close()
        self._agents.clear()

    async def _agent_keys(self, path: str) -> list[asyncssh.SSHKeyPair]:
        if not path:
            return []
        agent = self._agents.setdefault(path, asyncssh.SSHAgentClient(path))
        try:
            return list(await agent.get_keys())
        except (OSError, ValueError):
            return []  # no agent listens there


def _read(path: Path, certificates: Sequence[Path]) -> Identity:
    """An identity file; of a key that only the agent holds, or that cannot be read, the public half is enough."""
    found = Identity(path, _public_half(path))
    try:
        data = path.read_bytes()
        found.key = asyncssh.import_private_key(data)
        found.public = found.key.public_data
    except (OSError, asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        if str(error).startswith("Passphrase"):  # asyncssh itself tells encrypted keys by this word
            found.encrypted = data
    found.certificate = _certificate(path, certificates, found.public)
    return found


def _public_half(path: Path) -> bytes | None:
    """Public key beside a private key file, or in the named file itself."""
    for candidate in (path.with_name(f"{path.name}.pub"), path):
        try:
            return asyncssh.read_public_key(candidate).public_data
        except (OSError, asyncssh.KeyImportError):
            continue
    return None


def _certificate(path: Path, named: Sequence[Path], public: bytes | None) -> asyncssh.SSHCertificate | None:
    """The certificate of a key, among the named files and the file beside the key."""
    for candidate in (*named, path.with_name(f"{path.name}-cert.pub")):
        try:
            found = asyncssh.load_certificates(str(candidate))
        except (OSError, asyncssh.KeyImportError):
            continue
        for certificate in found:
            if certificate.key.public_data == public:
                return certificate
    return None
