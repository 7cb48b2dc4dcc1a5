"""Gloo's errors."""

from __future__ import annotations

from typing import Iterator, Match, Optional

from collectors.node import late_re as re
from collectors.node.logs.said import Family, Said, fields

_TIMEOUT = re.compile(r"Timed out waiting (?P<ms>\d+)ms for (?P<direction>recv|send)")
_CLOSED = re.compile(
    r"(?:Connection closed by peer|Connection reset by peer|Broken pipe|[Rr]ead error"
    r"|Connection refused) ?(?P<peer>\[[^\]]+\](?::\d+)?)?"
)
_ENFORCE = re.compile(r"\[enforce fail at [^\]\s]*gloo/[^\]]*\]\s*(?P<condition>[^\r\n]*)")
_MESH = re.compile(r"Gloo connectFullMesh failed with ?(?P<error>[^\r\n]*)")
_REFUSED = re.compile(r"[Cc]onnect(?:ion)? (?:timeout|timed out|refused) ?(?P<error>[^\r\n]*)")
"""Gloo's only in a line that names gloo before."""
_SIZE = re.compile(r"preamble\.length|data size doesn't match|nbytes")


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    timeout = _TIMEOUT.search(text)
    if timeout is not None:
        yield Said("gloo.timeout", fields(timeout, ("ms",)))
        return
    if "Application timeout caused pair closure" in text:
        yield Said("gloo.timeout", {})
        return
    enforce = _ENFORCE.search(text)
    if enforce is not None:
        kind = "gloo.size_mismatch" if _SIZE.search(enforce.group("condition")) else "gloo.enforce"
        yield Said(kind, fields(enforce))
        return
    connect = _MESH.search(text) or _refused(text)
    closed = _CLOSED.search(text) if "gloo" in text or "Connection closed by peer [" in text else None
    if connect is not None:
        data = fields(connect)
        if closed is not None:
            data.update(fields(closed))
        yield Said("gloo.connect_failed", data)
    elif closed is not None:
        yield Said("gloo.closed", fields(closed))


def _refused(text: str) -> Optional[Match[str]]:
    for line in text.splitlines():
        at = line.find("gloo")
        found = _REFUSED.search(line, at) if at >= 0 else None
        if found is not None:
            return found
    return None


FAMILY = Family(
    "gloo",
    (
        b"ms for recv",
        b"ms for send",
        b"caused pair closure",
        b"gloo/",
        b"connectFullMesh",
        b"Connection closed by peer [",
    ),
    read,
    re.compile(r"(?:connectFullMesh failed with|\[enforce fail at [^\]]*\])\s*$"),
)
