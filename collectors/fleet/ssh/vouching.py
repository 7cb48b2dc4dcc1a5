"""Logins for which somebody else vouches: a Kerberos ticket (GSSAPI), or this machine's own key (host-based).

Both are tried where the ssh_config says so, as with ``ssh``. Kerberos is spoken by asyncssh with the package
``gssapi``; the host's key is used by OpenSSH's ``ssh-keysign``, which may read it and asks ``EnableSSHKeysign`` itself.
Tickets are never handed on to a node: nothing here needs them there.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from collectors.fleet.ssh.settings import HostSettings

KEYSIGNS = tuple(
    Path(folder, "ssh-keysign")
    for folder in ("/usr/lib/openssh", "/usr/libexec/openssh", "/usr/lib/ssh", "/usr/libexec", "/usr/local/libexec")
)
"""Where distributions keep the program that signs with the host's key."""
HOST_KEYS = Path("/etc/ssh")
"""Folder of the host's keys, whose public halves everybody may read."""
CACHE = "/tmp/krb5cc_{}"
"""Where tickets of a user, by number, are kept unless ``KRB5CCNAME`` says otherwise."""


@dataclass(frozen=True, slots=True)
class Vouched:
    """What asyncssh is told of such logins, and what a person is if nobody is let in."""

    options: dict[str, Any]
    offered: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """What the ssh_config asks for and is not to be had, with the reason."""


async def vouched(settings: HostSettings, sock: socket.socket | None) -> Vouched:
    """Both of them for one connection; ``sock`` is what it goes through, None behind a jump host."""
    options: dict[str, Any] = {"gss_host": None, "gss_auth": False, "gss_kex": False, "host_based_auth": False}
    offered, left_out = [], []
    if settings.kerberos:
        why = _no_ticket()
        if why is None:
            options |= {"gss_host": settings.hostname, "gss_auth": True, "gss_delegate_creds": False}
            offered.append("Kerberos")
        elif why:
            left_out.append(f"Kerberos: {why}")
    if settings.host_based:
        program, keys = _signer(), _public_keys()
        if sock is None:
            left_out.append("this machine's key: not through a jump host")
        elif not program or not keys:
            left_out.append(f"this machine's key: no {f'key in {HOST_KEYS}' if program else 'ssh-keysign'} here")
        else:
            options |= {"host_based_auth": True, "client_host_keysign": program, "client_host_keys": keys}
            options["client_host"] = await _own_name(sock)
            offered.append("this machine's key")
    return Vouched(options, tuple(offered), tuple(left_out))


def _signer() -> str:
    return next((str(path) for path in KEYSIGNS if path.exists()), "")


def _public_keys() -> list[str]:
    return sorted(str(path) for path in HOST_KEYS.glob("ssh_host_*_key.pub"))


def _no_ticket() -> str | None:
    """Why there is no Kerberos; None where there is, empty where nobody seems to use it here."""
    if find_spec("gssapi") is None:
        uses = "KRB5CCNAME" in os.environ or Path(CACHE.format(os.getuid())).exists()
        return "the Python package gssapi is not installed here" if uses else ""
    gssapi: Any = importlib.import_module("gssapi")
    try:
        gssapi.Credentials(usage="initiate")
    except gssapi.exceptions.GSSError:
        return "no ticket (kinit gets one)"
    return None


async def _own_name(sock: socket.socket) -> str:
    """What ssh-keysign calls this machine: the name of the connection's own address, else the host's own."""
    name = socket.gethostname()
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        try:
            name, _ = await asyncio.get_running_loop().getnameinfo(sock.getsockname(), socket.NI_NAMEREQD)
        except socket.gaierror:
            return name  # its address has no name, or none here
    return name
