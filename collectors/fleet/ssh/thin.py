"""An SSH connection of which there are thousands, without what asyncssh does for every packet and keeps for nothing.

asyncssh sends a packet to be ignored before each of its own, sets its keepalive timer anew for whatever comes, and
keeps what only the handshake needed. Together that is an eighth of what streams of a packet a second cost, and 20 KB a
connection (:mod:`collectors.fleet.ssh.slim`). No option of asyncssh chooses the class of its connections, so a
connection gets this one when it is there; what is overridden is no promise of asyncssh's, so its minor version is
pinned and a test says what must be there.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Protocol, runtime_checkable

import asyncssh
from asyncssh.constants import MSG_IGNORE

from collectors.fleet.ssh.host_keys import certificate_of
from collectors.fleet.ssh.slim import come_back, compact, lighten, share_logger, slim

KEEPALIVE = 2.0
KEEPALIVES = 3
"""A cut link is noticed after ``KEEPALIVE * (KEEPALIVES + 1)`` seconds of silence."""

TALKATIVE = 2.5
"""Seconds of silence up to which a connection needs no keepalives: what it sends says that it is there."""

_QUIET_KEEPALIVE = KEEPALIVE - (TALKATIVE + 0.5) / (KEEPALIVES + 1)
"""From then on; together about as long as without, with the half second by which a look comes late on average."""


def talkative(interval: float) -> float:
    """:data:`TALKATIVE` of a node that sends every ``interval`` seconds.

    One that was asked to send less often, because this machine is too slow for more, must not be asked in between
    whether it is still there: thousands of such questions make a slow machine slower.
    """
    return max(TALKATIVE, 1.25 * (interval + 1.0))


def patience(interval: float) -> float:
    """Seconds of silence after which a cut link to such a node is noticed."""
    return KEEPALIVE * (KEEPALIVES + 1) + talkative(interval) - TALKATIVE


@runtime_checkable
class JudgesCertificates(Protocol):
    """A client that knows whose certificates are to be believed."""

    def judge_certificate(self, certificate: asyncssh.SSHCertificate) -> None:
        """Judge a certificate; the key in it is judged next, by ``validate_host_public_key``."""


class ThinConnection(asyncssh.SSHClientConnection):
    """A connection that asyncssh has made, from :func:`make_thin` on."""

    __getattr__ = come_back
    _heard_at = 0.0
    _spared = False

    def validate_server_host_key(self, key_data: bytes) -> asyncssh.SSHKey:
        """Take a certificate for the key in it where nobody known vouches for it, as OpenSSH does.

        Raises :class:`asyncssh.HostKeyNotVerifiable`.
        """
        client: object = self.get_owner()
        certificate = certificate_of(key_data)
        if certificate is None or not isinstance(client, JudgesCertificates):
            return super().validate_server_host_key(key_data)
        client.judge_certificate(certificate)
        return super().validate_server_host_key(certificate.key.public_data)

    def send_packet(self, pkttype: int, *args: bytes, **named: object) -> None:
        """Send a packet; those to be ignored only where they are for something: before a cipher in CBC mode."""
        if pkttype != MSG_IGNORE or "cbc" in str(self.get_extra_info("send_cipher")):
            super().send_packet(pkttype, *args, **named)  # type: ignore[arg-type]

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        """Note when something came."""
        self._heard_at = time.monotonic()
        super().data_received(data, datatype)

    def look(self, now: float, interval: float = 1.0) -> None:
        """Once a second: send keepalives only to who has fallen silent.

        ``now`` is monotonic, ``interval`` the seconds between two of its ticks.
        """
        spare = now - self._heard_at < talkative(interval)
        if spare != self._spared:
            self._spared = spare
            self.set_keepalive(0 if spare else _QUIET_KEEPALIVE, KEEPALIVES)

    def slim(self) -> None:
        """Let go of what only the handshake needed; a later exchange of keys begins with its own."""
        slim(self)


class ThinChannel(asyncssh.SSHClientChannel[bytes]):
    """A channel that asyncssh has opened, from :func:`make_thin_channel` on."""

    __getattr__ = come_back

    def log_received_packet(self, *packet: object, **named: object) -> None:
        """Say nothing of each packet: asyncssh puts its words together before it knows that nobody reads them."""


def make_thin_channel(connection: object, channel: object) -> None:
    """Hold what is alike on all channels once, when one was opened over a connection and its command began."""
    if type(channel) is asyncssh.SSHClientChannel:
        with suppress(TypeError):
            channel.__class__ = ThinChannel
            share_logger(channel)
            compact(channel)
    if isinstance(connection, ThinConnection):
        compact(connection)  # opening has left empty lists


def make_thin(connection: asyncssh.SSHClientConnection) -> None:
    """Make it a :class:`ThinConnection`, in the hook where asyncssh shows it before its first packet."""
    with suppress(TypeError):  # a version with slots would not have it
        connection.__class__ = ThinConnection
    lighten(connection)
