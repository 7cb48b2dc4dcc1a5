"""Error messages for a node that cannot be reached: what is wrong and what to do."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import asyncssh

from collectors.fleet.clean import LAST_LINE, clean
from collectors.fleet.ssh.config import KEEPALIVE, KEEPALIVES, HostSettings
from collectors.fleet.transport import Refused, TransportError, os_reason

_BY_SSH = ("GSSAPIAuthentication", "HostbasedAuthentication")
"""Login methods that only OpenSSH's client supports."""
_KEYS = "hangtop asks for no password or passphrase, but uses keys in ssh-agent (ssh-add)"


def explain(
    error: Exception, settings: HostSettings, offers: Sequence[asyncssh.SSHKeyPair], *, accepted: bool
) -> TransportError:
    """The error for a failed attempt to connect: ``offers`` are the keys, ``accepted`` is whether TCP connected."""
    where = f"{settings.host} port {settings.port}"
    match error:
        case asyncssh.PermissionDenied():
            offered = ", ".join(dict.fromkeys(offer.get_algorithm() for offer in offers)) or "no key, no agent"
            by_ssh = [word for word in _BY_SSH if settings.value(word)]
            remedy = f"{by_ssh[0]} needs --via ssh" if by_ssh else f"{_KEYS}: try ssh {settings.original}"
            user = settings.options.username
            return Refused(f"{user}@{where} accepts none of the keys offered ({offered}); {remedy}")
        case asyncssh.KeyExchangeFailed():
            return Refused(f"{where} has no algorithm in common with this side: {_text(error)}")
        case asyncssh.ConnectionLost() | ConnectionResetError() | BrokenPipeError():
            why = "ended the connection during the handshake (sshd's MaxStartups, or it bars this machine)"
            return TransportError(f"{where} {why}")
        case socket.gaierror():
            return TransportError(f"no address for {where}: check the name, or HostName in the ssh_config")
        case ConnectionRefusedError():
            return TransportError(f"nothing listens at {where}: is sshd running there?")
        case TimeoutError() if accepted:
            login = f"no login was done within {settings.timeout:g} s"
            why = "it is overloaded, or what listens there is no sshd"
            return TransportError(f"{where} accepts connections, but {login}: {why}")
        case TimeoutError():
            return TransportError(f"no answer from {where}: it is down, or a firewall drops what is sent")
        case OSError():
            return TransportError(f"{where}: {os_reason(error)}")
    return TransportError(f"{where}: {_text(error)}")


def explain_channel(error: Exception) -> str:
    """The message for a command that could not be started over an open connection."""
    if isinstance(error, asyncssh.ChannelOpenError):
        return f"sshd opens no further session on this connection ({_text(error)}): its MaxSessions must be 10"
    if isinstance(error, TimeoutError):
        return "sshd opened no session in time: the node is overloaded"
    return _text(error)


def explain_loss(error: Exception | None) -> str:
    """The message for an open connection that ended."""
    text = "" if error is None else _text(error)
    if "keepalive" in text:
        return f"no answer for {KEEPALIVE * (KEEPALIVES + 1):.0f} s: its link is cut, or it is down"
    if isinstance(error, (ConnectionResetError, BrokenPipeError)) or "Connection lost" in text:
        return "the connection broke: sshd was killed there, or the machine went down"
    return f"the connection ended: {text}" if text else "the connection was closed"


def _text(error: Exception) -> str:
    reason = getattr(error, "reason", "") or str(error) or type(error).__name__
    return clean(str(reason)).replace("\n", " ")[:LAST_LINE]
