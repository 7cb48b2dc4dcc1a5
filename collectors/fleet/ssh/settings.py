"""What the ssh_config means for one connection: every value typed, tokens replaced, defaults filled in."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from collectors.fleet.ssh.config import SshConfig, Values
from collectors.fleet.ssh.tokens import Tokens, expand_variables
from collectors.fleet.ssh.words import SshConfigError

Strict = Literal["yes", "ask", "accept-new", "no"]

_STRICT: Mapping[str, Strict] = {
    "yes": "yes", "true": "yes", "ask": "ask", "accept-new": "accept-new", "no": "no", "false": "no", "off": "no"
}  # fmt: skip
_FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}
_IDENTITIES = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
_JUMP = re.compile(r"(?:ssh://)?(?:(?P<user>[^@]+)@)?(?P<host>\[[^\]]+\]|[^:@\[\]/]+)(?::(?P<port>[0-9]+))?/?\Z")
_ALGORITHMS = {
    "kex_algs": "kexalgorithms", "encryption_algs": "ciphers", "mac_algs": "macs",
    "server_host_key_algs": "hostkeyalgorithms", "signature_algs": "pubkeyacceptedalgorithms",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Jump:
    """One host of a ProxyJump, as it is written there: to be looked up in the configuration itself."""

    host: str
    user: str | None
    port: int | None


@dataclass(frozen=True, slots=True)
class HostSettings:
    """How to reach one host and what to trust."""

    original: str
    """As the user named it."""
    hostname: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    identities_named: bool
    """False when they are the default ones, which need not exist."""
    certificate_files: tuple[Path, ...]
    identities_only: bool
    agent: str
    """Path of the agent's socket; empty for none."""
    jumps: tuple[Jump, ...]
    proxy_command: str
    user_known_hosts: tuple[Path, ...]
    global_known_hosts: tuple[Path, ...]
    revoked_keys: Path | None
    """RevokedHostKeys."""
    host_key_alias: str
    strict: Strict
    hash_known_hosts: bool
    trust_loopback: bool
    """NoHostAuthenticationForLocalhost."""
    batch: bool
    timeout: float | None
    """Seconds for reaching it and shaking hands."""
    family: int
    bind_address: str
    compression: bool
    kerberos: bool
    """GSSAPIAuthentication."""
    host_based: bool
    """HostbasedAuthentication."""
    public_key: bool
    password: bool
    keyboard: bool
    password_prompts: int
    preferred: tuple[str, ...]
    """Methods of authentication in order; empty for the usual order."""
    algorithms: tuple[tuple[str, str], ...]
    """asyncssh's name of a list of algorithms, and the list as the configuration has it."""

    @property
    def known_as(self) -> str:
        """Name of the host itself, which a certificate must name."""
        return (self.host_key_alias or self.hostname).lower()

    @property
    def known_name(self) -> str:
        """Name under which its key is in known_hosts: with the port where that is not 22, unless it is an alias."""
        return self.known_as if self.port == 22 or self.host_key_alias else f"[{self.known_as}]:{self.port}"


def settings_of(config: SshConfig, host: str, user: str | None = None, port: int | None = None) -> HostSettings:
    """Look a host up in the configuration. May run ``Match exec``. Raises :class:`SshConfigError`."""
    values = config.values(host, user, port)
    # what was typed has no tokens: the percent sign of fe80::1%eth0 names an interface
    configured = values.get("hostname")
    hostname = Tokens(host, host).expand(configured, "%h") if configured else host
    if hostname.startswith("[") and hostname.endswith("]"):
        hostname = hostname[1:-1]
    number = _port(values)
    login = values.get("user") or getpass.getuser()
    alias = values.get("hostkeyalias") or ""
    jumps = _jumps(values, Tokens(host, hostname, str(number), login))
    tokens = Tokens(host, hostname, str(number), login, alias, ",".join(jump.host for jump in jumps))
    home = Path("~/.ssh").expanduser()
    named = _paths(values, "identityfile", tokens)
    return HostSettings(
        original=host,
        hostname=hostname,
        port=number,
        user=login,
        identity_files=_held_once(named if named is not None else tuple(home / name for name in _IDENTITIES)),
        identities_named=named is not None,
        certificate_files=_paths(values, "certificatefile", tokens) or (),
        identities_only=_flag(values, "identitiesonly", False),
        agent=_agent(values, tokens),
        jumps=jumps,
        proxy_command=_proxy_command(values, tokens),
        user_known_hosts=_listed(values, "userknownhostsfile", tokens, (home / "known_hosts", home / "known_hosts2")),
        global_known_hosts=_listed(
            values,
            "globalknownhostsfile",
            tokens,
            (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2")),
        ),
        revoked_keys=next(iter(_listed(values, "revokedhostkeys", tokens, ())), None),
        host_key_alias=alias,
        strict=_strict(values),
        hash_known_hosts=_flag(values, "hashknownhosts", False),
        trust_loopback=_flag(values, "nohostauthenticationforlocalhost", False),
        batch=_flag(values, "batchmode", False),
        timeout=_seconds(values, "connecttimeout"),
        family=_family(values),
        bind_address=values.get("bindaddress") or "",
        compression=_flag(values, "compression", False),
        kerberos=_flag(values, "gssapiauthentication", False),
        host_based=_flag(values, "hostbasedauthentication", False),
        public_key=_pubkey(values),
        password=_flag(values, "passwordauthentication", True),
        keyboard=_flag(values, "kbdinteractiveauthentication", _flag(values, "challengeresponseauthentication", True)),
        password_prompts=_count(values, "numberofpasswordprompts", 3),
        preferred=tuple(word for word in (values.get("preferredauthentications") or "").split(",") if word),
        algorithms=tuple((name, text) for name, keyword in _ALGORITHMS.items() if (text := values.get(keyword))),
    )


def _wrong(values: Values, keyword: str) -> SshConfigError:
    place = values.places.get(keyword)
    return SshConfigError(f"{place or 'ssh_config'}: {values.get(keyword)!r} is no value for {keyword}")


def _flag(values: Values, keyword: str, default: bool) -> bool:
    word = (values.get(keyword) or "").lower()
    if not word:
        return default
    if word in ("yes", "true", "no", "false"):
        return word in ("yes", "true")
    raise _wrong(values, keyword)


def _pubkey(values: Values) -> bool:
    # "unbound" and "host-bound" are ways of doing it that make no difference here.
    return (values.get("pubkeyauthentication") or "yes").lower() not in ("no", "false")


def _count(values: Values, keyword: str, default: int) -> int:
    text = values.get(keyword)
    if text is None:
        return default
    if not text.isdecimal():
        raise _wrong(values, keyword)
    return int(text)


def _port(values: Values) -> int:
    port = _count(values, "port", 22)
    if not 0 < port < 65536:
        raise _wrong(values, "port")
    return port


def _seconds(values: Values, keyword: str) -> float | None:
    text = (values.get(keyword) or "none").lower()
    if text == "none":
        return None
    parts = re.findall(r"([0-9]+)([smhdw]?)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise _wrong(values, keyword)
    scale = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    return float(sum(int(number) * scale[unit] for number, unit in parts)) or None


def _family(values: Values) -> int:
    family = _FAMILIES.get((values.get("addressfamily") or "any").lower())
    if family is None:
        raise _wrong(values, "addressfamily")
    return family


def _strict(values: Values) -> Strict:
    strict = _STRICT.get((values.get("stricthostkeychecking") or "ask").lower())
    if strict is None:
        raise _wrong(values, "stricthostkeychecking")
    return strict


def _paths(values: Values, keyword: str, tokens: Tokens) -> tuple[Path, ...] | None:
    """Paths of a keyword that adds up; None when nothing was said, empty for ``none``."""
    texts = values.texts.get(keyword)
    if texts is None:
        return None
    return tuple(tokens.path(text) for text in texts if text.lower() != "none")


def _listed(values: Values, keyword: str, tokens: Tokens, default: tuple[Path, ...]) -> tuple[Path, ...]:
    texts = values.texts.get(keyword)
    if texts is None:
        return _held_once(default)
    return _held_once(tuple(tokens.path(text) for text in texts if text.lower() != "none"))


@lru_cache(maxsize=256)
def _held_once(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """The same paths as those of other hosts: thousands have them alike, and a path is half a kilobyte."""
    return paths


def _agent(values: Values, tokens: Tokens) -> str:
    text = values.get("identityagent") or "SSH_AUTH_SOCK"
    if text.lower() == "none":
        return ""
    if text == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK", "")
    if text.startswith("$") and not text.startswith("${"):
        return os.environ.get(text[1:], "")
    return str(tokens.path(text))


def _proxy_command(values: Values, tokens: Tokens) -> str:
    text = values.get("proxycommand") or "none"
    return "" if text.lower() == "none" else tokens.expand(expand_variables(text))


def _jumps(values: Values, tokens: Tokens) -> tuple[Jump, ...]:
    text = values.get("proxyjump") or "none"
    if text.lower() == "none":
        return ()
    jumps = []
    for word in text.split(","):
        found = _JUMP.match(tokens.expand(word.strip(), "%hnpr"))
        if found is None or (port := int(found["port"] or 22)) > 65535:
            raise _wrong(values, "proxyjump")
        jumps.append(Jump(found["host"].strip("[]"), found["user"], port if found["port"] else None))
    return tuple(jumps)
