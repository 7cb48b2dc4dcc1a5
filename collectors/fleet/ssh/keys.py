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


class LockedKey:
    """One encrypted private key, decrypted at most once."""

    def __init__(self, path: Path, data: bytes, questions: Questions) -> None:
        self.path = path
        self._data = data
        self._questions = questions
        self._lock = asyncio.Lock()
        self._key: asyncssh.SSHKey | None = None
        self._declined = False

    async def key(self, node: str, waiting: Callable[[str], None]) -> asyncssh.SSHKey | None:
        """The key; None when the person does not give its passphrase, for which no second question is asked."""
        if self._key is not None:
            return self._key
        waiting(f"waits for an answer: the passphrase of {self.path}")
        try:
            async with self._lock:
                for _ in range(_TRIES):
                    if self._key is not None or self._declined:
                        break
                    answer = await self._questions.ask(Question(node, "passphrase", f"Passphrase of {self.path}"))
                    if answer is None:
                        break
                    try:
                        self._key = await asyncio.to_thread(asyncssh.import_private_key, self._data, answer)
                    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError):
                        continue
                self._declined = self._key is None
            return self._key
        finally:
            waiting("")


@dataclass(frozen=True, slots=True)
class Identity:
    """One identity file."""

    public: bytes | None = None
    """Its public key, where it is readable."""
    offers: tuple[Offer, ...] = ()
    locked: LockedKey | None = None
    certificate: asyncssh.SSHCertificate | None = None


class KeyRing:
    """Keys of the user's identity files and agents."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._identities: dict[tuple[Path, tuple[Path, ...]], Identity] = {}
        self._agents: dict[str, asyncssh.SSHAgentClient] = {}
        self._reading = asyncio.Lock()

    async def offers(self, settings: HostSettings) -> tuple[list[Offer], list[Identity]]:
        """Keys to offer to a server, the agent's first, and encrypted identities, to be offered last."""
        async with self._reading:
            identities = [await self._identity(path, settings) for path in settings.identities]
        agent = await self._agent_keys(settings.agent)
        named = {identity.public for identity in identities if identity.public}
        held = {pair.key_public_data for pair in agent}
        if settings.says("IdentitiesOnly"):
            agent = [pair for pair in agent if pair.key_public_data in named]
        agent.sort(key=lambda pair: pair.key_public_data not in named)
        # asyncssh notes in the pair which signature algorithm a server wants, so connections must not share one.
        found: list[Offer] = [copy.copy(pair) for pair in agent]
        rest = [identity for identity in identities if identity.public not in held]
        found += [offer for identity in rest for offer in identity.offers]
        return found, [identity for identity in rest if identity.locked is not None]

    def close(self) -> None:
        """Close the connections to agents."""
        for agent in self._agents.values():
            agent.close()
        self._agents.clear()

    async def _identity(self, path: Path, settings: HostSettings) -> Identity:
        key = (path, settings.certificates)
        if key not in self._identities:
            found, why = await asyncio.to_thread(self._read, path, settings.certificates, settings.identities_named)
            self._identities[key] = found
            if why:
                self._questions.tell(f"the key {path} cannot be used: {why}")
        return self._identities[key]

    def _read(self, path: Path, certificates: Sequence[Path], must_exist: bool) -> tuple[Identity, str]:
        """An identity file, and why it cannot be used."""
        public = _public_file(path)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return Identity(public), "no such file" if must_exist and public is None else ""
        except OSError as error:
            return Identity(public), error.strerror or str(error)
        try:
            key = asyncssh.import_private_key(data)
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            if str(error).startswith("Passphrase"):  # asyncssh itself tells encrypted keys by this word
                certificate = _certificate(path, certificates, public)
                return Identity(public, locked=LockedKey(path, data, self._questions), certificate=certificate), ""
            return Identity(public), "" if public is not None else str(error)
        certificate = _certificate(path, certificates, key.public_data)
        return Identity(key.public_data, ((key, certificate), key) if certificate else (key,)), ""

    async def _agent_keys(self, path: str) -> list[asyncssh.SSHKeyPair]:
        if not path:
            return []
        agent = self._agents.setdefault(path, asyncssh.SSHAgentClient(path))
        try:
            return list(await agent.get_keys())
        except (OSError, ValueError):
            return []  # no agent listens there


def _public_file(path: Path) -> bytes | None:
    """Public key beside a private key file, or in the named file itself, for a key that only the agent holds."""
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
