"""Queries the kernel over netlink (netlink(7)): one request, many messages in answer, attributes in each.

Uses only ``_socket``, the C part of module ``socket``: the rest, which names each constant, takes half a megabyte.
"""

from __future__ import annotations

import struct
from _socket import AF_NETLINK, SOCK_RAW, socket
from typing import Dict, Iterator, Tuple

LIMIT = 32 << 20
"""Bytes of one answer at most: about 100,000 sockets."""
PATIENCE = 1.0
"""Seconds to wait for the kernel."""
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_DONE, _ERROR = 3, 2  # NLMSG_DONE, NLMSG_ERROR


def netlink(protocol: int) -> socket:
    """A netlink socket. Raises :class:`OSError` if a container may not open one, or the kernel has no netlink."""
    asked = socket(AF_NETLINK, SOCK_RAW, protocol)
    asked.settimeout(PATIENCE)
    return asked


def dump(asked: socket, kind: int, request: bytes) -> Iterator[bytes]:
    """Bodies of the messages that answer a dump request. Raises :class:`OSError`."""
    asked.send(_HEADER.pack(_HEADER.size + len(request), kind, _DUMP, 1, 0) + request)
    left = LIMIT
    while left > 0:
        answer = asked.recv(1 << 17)
        left -= len(answer)
        for answered, body in messages(answer):
            if answered in (_DONE, _ERROR):
                return
            yield body


def messages(answer: bytes) -> Iterator[Tuple[int, bytes]]:
    """(kind, body) of each message in one read; an incomplete message ends the iteration."""
    at = 0
    while at + _HEADER.size <= len(answer):
        length, kind = _HEADER.unpack_from(answer, at)[:2]
        if length < _HEADER.size or at + length > len(answer):
            return
        yield kind, answer[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def attributes(body: bytes, at: int) -> Dict[int, bytes]:
    """Attributes of a message by kind; they begin at offset ``at``, after the fixed part."""
    found: Dict[int, bytes] = {}
    while at + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if length < _ATTRIBUTE.size:
            break
        found.setdefault(kind, body[at + _ATTRIBUTE.size : at + length])
        at += (length + 3) & ~3
    return found
