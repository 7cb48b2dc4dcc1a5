"""The user's keys: read once for all nodes, their passphrases asked for once and only when a server wants the key."""

from __future__ import annotations

import asyncio
import base64
import binascii
import copy
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import asyncssh

from collectors.fleet.ssh.asking import Questions
from collectors.fleet.ssh.questions import Question
from collectors.fleet.ssh.settings import HostSettings

PASSPHRASE_TRIES = 3
_MAGIC = b"openssh-key-v1\0"


class Unlocking:
    """One encrypted private key, decrypted at most once."""

    def __init__(self, path: Path, questions: Questions) -> None:
        self._path = path
        self._questions = questions
        self._lock = asyncio.Lock()
        self._key: asyncssh.SSHKey | None = None
        self._declined = False

    async def key(self, node: str, waiting: Callable[[str], None]) -> asyncssh.SSHKey:
        """The key. Raises :class:`ValueError` when the passphrase is not to be had; nobody is asked again then."""
        if self._key is not None:
            return self._key
        waiting(f"waits for an answer: the passphrase of {self._path}")
        try:
            return await self._unlock(node)
        finally:
            waiting("")

    async def _unlock(self, node: str) -> asyncssh.SSHKey:
        async with self._lock:
            for _ in range(PASSPHRASE_TRIES):
                if self._key is not None:
                    return self._key
                if self._declined:
                    break
                prompt = f"Passphrase of {self._path}"
                answer = await self._questions.ask(Question(node, "passphrase", prompt))
                if answer is None:
                    break
                try:
                    self._key = await asyncio.to_thread(asyncssh.read_private_key, self._path, answer)
                except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, OSError):
                    continue
            if self._key is None:
                self._declined = True
                raise ValueError(f"no passphrase for {self._path}")
            return self._key


class EncryptedKeyPair(asyncssh.SSHKeyPair):
    """A key whose public half is known: it is offered, and decrypted when a server accepts it."""

    _key_type = "local"

    def __init__(self, public: asyncssh.SSHKey, unlocking: Unlocking, cert: asyncssh.SSHCertificate | None) -> None:
        super().__init__(
            public.algorithm,
            public.algorithm,
            public.sig_algorithms,
            public.sig_algorithms,
            public.public_data,
            None,
            cert,
        )
        self._unlocking = unlocking
        self.node = ""
        self.waiting: Callable[[str], None] = lambda _reason: None

    async def sign_async(self, data: bytes) -> bytes:
        """Sign; asks for the passphrase first when nobody has yet."""
        key = await self._unlocking.key(self.node, self.waiting)
        return key.sign(data, self.sig_algorithm)


class Identity(NamedTuple):
    """One identity file, as far as it could be read."""

    public_data: bytes | None
    pairs: tuple[asyncssh.SSHKeyPair, ...]


class KeyRing:
    """All keys of this user, in the order in which OpenSSH offers them."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._identities: dict[tuple[Path, tuple[Path, ...]], asyncio.Task[Identity]] = {}
        self._agents: dict[str, asyncssh.SSHAgentClient] = {}
        self._problems: dict[Path, str] = {}
        """Identity files that exist or were named and cannot be used, and why."""

    async def pairs(
        self, settings: HostSettings, node: str, waiting: Callable[[str], None]
    ) -> list[asyncssh.SSHKeyPair]:
        """Keys for one connection: the agent's that are named, the agent's others, then files."""
        identities = [await self._identity(path, settings) for path in settings.identity_files]
        agent = await self._agent_keys(settings.agent)
        named = {identity.public_data for identity in identities if identity.public_data}
        held = {pair.key_public_data for pair in agent}
        chosen = [pair for identity in identities for pair in agent if pair.key_public_data == identity.public_data]
        if not settings.identities_only:
            chosen += [pair for pair in agent if pair.key_public_data not in named]
        chosen += [pair for identity in identities if identity.public_data not in held for pair in identity.pairs]
        # asyncssh notes in the pair which signature algorithm a server wants, so connections must not share one.
        mine = [copy.copy(pair) for pair in chosen]
        for pair in mine:
            if isinstance(pair, EncryptedKeyPair):
                pair.node, pair.waiting = node, waiting
        return mine

    def close(self) -> None:
        """Let go of the agents."""
        for agent in self._agents.values():
            agent.close()
        self._agents.clear()

    async def _identity(self, path: Path, settings: HostSettings) -> Identity:
        key = (path, settings.certificate_files)
        if key not in self._identities:
            must_exist = settings.identities_named
            self._identities[key] = asyncio.ensure_future(self._take(path, settings.certificate_files, must_exist))
        reading = self._identities[key]
        return reading.result() if reading.done() else await asyncio.shield(reading)  # shared: it outlives its askers

    async def _take(self, path: Path, certificates: Sequence[Path], must_exist: bool) -> Identity:
        """Read an identity, and tell the person when it cannot be used."""
        found = await asyncio.to_thread(self._read, path, certificates, must_exist)
        if (why := self._problems.get(path)) is not None:
            self._questions.tell(f"the key {path} cannot be used: {why}")
        return found

    def _read(self, path: Path, certificates: Sequence[Path], must_exist: bool) -> Identity:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            if must_exist:
                self._problems[path] = "no such file"
            return _agent_only(path)
        except OSError as error:
            self._problems[path] = error.strerror or str(error)
            return _agent_only(path)
        try:
            key = asyncssh.import_private_key(data)
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            return self._encrypted(path, data, certificates, str(error))
        cert = _certificate(path, certificates, key.public_data)
        pairs = asyncssh.load_keypairs([(key, cert)] if cert else [key])
        plain = asyncssh.load_keypairs([key]) if cert else []
        return Identity(key.public_data, (*pairs, *plain))

    def _encrypted(self, path: Path, data: bytes, certificates: Sequence[Path], why: str) -> Identity:
        public = _public_half(data) or _public_file(path)
        if public is None:
            self._problems[path] = why
            return Identity(None, ())
        unlocking = Unlocking(path, self._questions)
        cert = _certificate(path, certificates, public.public_data)
        certified = (EncryptedKeyPair(public, unlocking, cert),) if cert else ()
        return Identity(public.public_data, (*certified, EncryptedKeyPair(public, unlocking, None)))

    async def _agent_keys(self, path: str) -> list[asyncssh.SSHKeyPair]:
        if not path:
            return []
        agent = self._agents.setdefault(path, asyncssh.SSHAgentClient(path))
        try:
            return list(await agent.get_keys())
        except (OSError, ValueError):
            return []  # no agent listens there: as if there were none


def _agent_only(path: Path) -> Identity:
    """A private key that only the agent has is named by its public file."""
    public = _public_file(path)
    return Identity(public.public_data if public else None, ())


def _public_file(path: Path) -> asyncssh.SSHKey | None:
    """Public key beside a private one, or in a file that is named itself."""
    for candidate in (path.with_name(f"{path.name}.pub"), path):
        try:
            return asyncssh.read_public_key(candidate)
        except (OSError, asyncssh.KeyImportError):
            continue
    return None


def _public_half(data: bytes) -> asyncssh.SSHKey | None:
    """Public key inside an encrypted private key of OpenSSH's own format, where it lies open."""
    text = b"".join(line for line in data.splitlines() if not line.startswith(b"-----"))
    try:
        raw = base64.b64decode(text, validate=True)
        if not raw.startswith(_MAGIC):
            return None
        rest = raw[len(_MAGIC) :]
        for _ in range(3):  # cipher, key derivation and its options
            (size,) = struct.unpack_from(">I", rest)
            rest = rest[4 + size :]
        _count, size = struct.unpack_from(">II", rest)
        blob = rest[8 : 8 + size]
        (size,) = struct.unpack_from(">I", blob)
        kind = blob[4 : 4 + size]
        return asyncssh.import_public_key(kind + b" " + base64.b64encode(blob))
    except (binascii.Error, ValueError, struct.error, asyncssh.KeyImportError):
        return None


def _certificate(path: Path, certificates: Sequence[Path], public: bytes) -> asyncssh.SSHCertificate | None:
    """The certificate for a key among those named and the one beside it."""
    for candidate in (*certificates, path.with_name(f"{path.name}-cert.pub")):
        try:
            found = asyncssh.load_certificates(str(candidate))
        except (OSError, asyncssh.KeyImportError):
            continue
        for cert in found:
            if cert.key.public_data == public:
                return cert
    return None
