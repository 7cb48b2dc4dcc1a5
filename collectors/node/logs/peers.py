"""Ranks that try again and again to reach another one: LightGBM's sockets, that wait longer each time."""

from __future__ import annotations

import re
from typing import Iterator

from collectors.node.logs.said import Family, Said, fields

_PEER = re.compile(r"Connecting to rank (?P<peer>\d{1,6}) failed, waiting for \d{1,9} milliseconds")


def read(text: str) -> Iterator[Said]:
    """Events of one line: ``peer.retry`` with the rank that could not be reached; no fault by itself."""
    peer = _PEER.search(text)
    if peer is not None:
        yield Said("peer.retry", fields(peer, ("peer",)))


FAMILY = Family("peers", (b"Connecting to rank ",), read)
