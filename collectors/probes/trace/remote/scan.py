"""Cuts Chrome's trace JSON into events as it comes, so that a trace of any size needs the memory of one chunk.

What is not everywhere the same (Kineto's output_json.cpp, and traces of torch 1.8 to 2.13): the events are the member
``traceEvents`` of an object, or the whole document is the array; ``distributedInfo`` stands before the events
(torch.profiler) or after them (asked for by dynolog); a trace that is copied while it is written ends anywhere.

A chunk is cut where ``},{`` is met last and decoded as a whole. Where that fails (the array's end, a damaged event, the
cut lay inside an event) the chunk is gone through brace by brace, and what cannot be decoded is counted.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, Iterator, List

CHUNK = 2 << 20
"""Bytes that are asked for at once."""
LARGEST_HEAD = 64 << 20
LARGEST_EVENT = 16 << 20
LARGEST_TAIL = 16 << 20

Read = Callable[[int], bytes]
Decode = Callable[[bytes], List[Any]]

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*[\]{]")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]"]', re.DOTALL)
_LIKELY = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts)"\s*:')
_MEMBERS = (b"distributedInfo", b"baseTimeNanoseconds")


class BadTrace(ValueError):
    """No trace; the text says why."""


def looks_like(head: bytes) -> bool:
    """Whether a file that begins so may be a trace."""
    if _EVENTS.search(head) or b'"deviceProperties"' in head:
        return True
    return _ARRAY.match(head) is not None and b'"ph"' in head


class EventScanner:
    """Iterates over lists of decoded events; the other attributes hold once it has ended.

    ``decode`` makes a list of the bytes of a JSON array, or raises :class:`ValueError`.
    """

    def __init__(self, read: Read, decode: Decode) -> None:
        self._read = read
        self._decode = decode
        self.about: Dict[str, Any] = {}
        """``distributedInfo`` and ``baseTimeNanoseconds``, as far as the document has them."""
        self.damaged = 0
        """Events that could not be decoded."""
        self.whole = False
        """The end of the array was met."""

    def __iter__(self) -> Iterator[List[Any]]:
        """Go through the document once. Raises :class:`BadTrace` when it has no events to begin with."""
        buffer = self._opening()
        ended = False
        while True:
            cut = last_boundary(buffer)
            if cut > 0:
                try:
                    events = self._decode(b"[" + buffer[:cut].rstrip(b", \t\r\n") + b"]")
                except ValueError:
                    cut = 0
                else:
                    buffer = buffer[cut:]
                    yield events
            if cut <= 0:
                events, buffer = self._carefully(buffer)
                if events:
                    yield events
                if self.whole:
                    self._closing(buffer)
                    return
                if ended:
                    self.damaged += bool(buffer.strip(b", \t\r\n"))
                    return
            data = self._read(CHUNK)
            ended = not data
            buffer += data

    def _opening(self) -> bytes:
        """Read up to the first event; what was read beyond."""
        head = b""
        while len(head) < LARGEST_HEAD:
            data = self._read(CHUNK)
            head += data
            found = _EVENTS.search(head) or _ARRAY.match(head)
            if found:
                self._note(head[: found.start()])
                return head[head.index(b"[", found.start()) + 1 :]
            if not data:
                break
        raise BadTrace("no trace: it has no traceEvents" if head.strip() else "empty")

    def _closing(self, rest: bytes) -> None:
        while len(rest) < LARGEST_TAIL:
            data = self._read(CHUNK)
            if not data:
                break
            rest += data
        self._note(rest)

    def _note(self, part: bytes) -> None:
        """Take the members that say whose trace it is."""
        for name in _MEMBERS:
            place = part.find(b'"' + name + b'"')
            if place >= 0 and name.decode() not in self.about:
                value = part[place + len(name) + 2 : place + (1 << 20)].decode("utf-8", "replace").lstrip(" :\t\r\n")
                try:
                    self.about[name.decode()] = json.JSONDecoder().raw_decode(value)[0]
                except (ValueError, RecursionError):
                    continue

    def _carefully(self, buffer: bytes) -> "tuple[List[Any], bytes]":
        """Decode event by event, up to the array's end or the last whole event; (events, what is left)."""
        events: List[Any] = []
        depth = begin = done = 0
        place = 0
        while True:
            token = _TOKEN.search(buffer, place)
            if token is None or token.group() == b'"':
                break
            place = token.end()
            mark = token.group()
            if mark in b"{[":
                if depth == 0:
                    begin = token.start()
                depth += 1
            elif mark in b"}]":
                if depth == 0 and mark == b"]":
                    self.whole = True
                    return events, buffer[place:]
                depth = max(0, depth - 1)
                if depth == 0:
                    done = place
                    events += self._one(buffer[begin:place])
        left = buffer[done:]
        return events, self._resynchronised(left) if len(left) > LARGEST_EVENT else left

    def _one(self, event: bytes) -> List[Any]:
        try:
            return self._decode(b"[" + event + b"]")
        except ValueError:
            self.damaged += 1
            return []

    def _resynchronised(self, left: bytes) -> bytes:
        """An event without an end: go on where the next one seems to begin."""
        self.damaged += 1
        found = _LIKELY.search(left, left.index(b"{") + 1 if b"{" in left else 0)
        return left[found.start() :] if found else b""


def last_boundary(buffer: bytes) -> int:
    """Where the last ``{`` lies that follows ``},``; -1 when there is none."""
    place = buffer.rfind(b"{")
    while place > 0:
        before = buffer[max(0, place - 64) : place].rstrip()
        if before.endswith(b",") and before[:-1].rstrip().endswith(b"}"):
            return place
        place = buffer.rfind(b"{", 0, place)
    return -1
