"""Decoding of a node's stream into samples.

No input raises. A line that is no sample becomes a :class:`BadLine`, as does a line beyond :data:`LINE_LIMIT`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from collectors.fleet import bounds
from collectors.fleet.clean import clean_bytes, clean_value
from collectors.samples.registry import SAMPLES

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

LINE_LIMIT = 1 << 20
"""Bytes of a line without an end, after which the whole line is dropped."""

BAD_LIMIT = 16
"""Bad lines whose text is kept between two calls of :meth:`Decoder.bad_lines`; further ones are only counted."""

EXCERPT = 200
"""Bytes of a bad line that are kept."""

for _sample in SAMPLES:
    bounds.bind(_sample)

_split = msgspec.json.Decoder(list[msgspec.Raw]).decode


_KINDS: dict[bytes, Callable[[bytes], list[Any]]] = {
    kind.__name__.encode(): msgspec.json.Decoder(list[kind]).decode  # type: ignore[valid-type]
    for kind in SAMPLES
}
"""Decoders of a line's samples, by kind."""


class BadLine(NamedTuple):
    """A line, or a part of one, that is no sample."""

    text: str
    """Its beginning, cleaned."""
    why: str
    lines: int = 1
    """Bad lines that this one stands for: the last of :data:`BAD_LIMIT` also stands for all further ones."""


class Decoder:
    """Decoder of one node's stream: it splits lines, decodes and cleans samples, and counts bad lines."""

    __slots__ = ("_bad", "_rest", "_skipping")

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False
        self._bad: list[BadLine] = []

    def feed(self, data: bytes) -> list[NamedTuple]:
        """Samples of all lines that ``data`` completes, in order."""
        if self._skipping:
            end = data.find(b"\n") + 1
            if not end:
                return []
            self._skipping = False
            data = data[end:]
        *lines, self._rest = (self._rest + data).split(b"\n")
        samples: list[NamedTuple] = []
        for line in lines:
            if line:
                samples += self._decode(line)
        if len(self._rest) > LINE_LIMIT:
            self._reject(self._rest, f"longer than {LINE_LIMIT} bytes without an end: dropped")
            self._rest = b""
            self._skipping = True
        return samples

    def bad_lines(self) -> list[BadLine]:
        """Bad lines since the last call, at most :data:`BAD_LIMIT`; their ``lines`` add up to the number of all."""
        bad, self._bad = self._bad, []
        return bad

    def _decode(self, line: bytes) -> list[Any]:
        """Samples of one line, ``["Kind",[fields],[fields]…]``; each bad one becomes a :class:`BadLine`."""
        end = line.find(b'"', 2)
        decode = _KINDS.get(line[2:end]) if line.startswith(b'["') else None
        if decode is None:
            named = line.startswith(b'["') and 0 < end < 64
            self._reject(line, f"unknown kind {clean_bytes(line[2:end])}" if named else "no sample")
            return []
        rows = line[end + 1 :].strip()
        if not (rows.startswith(b",") and rows.endswith(b"]")):
            self._reject(line, "cut off")
            return []
        rows = b"[" + rows[1:]
        try:
            samples = decode(rows)
        except _UNREADABLE:
            samples = self._one_by_one(line, rows, decode)
        else:
            if not samples:
                self._reject(line, "cut off")
        # Nearly every line is printable ASCII without escapes, which needs no cleaning.
        if b"\\" in line or b"\x7f" in line or not line.isascii():
            samples = [clean_value(sample) for sample in samples]
        return samples

    def _one_by_one(self, line: bytes, rows: bytes, decode: Callable[[bytes], list[Any]]) -> list[Any]:
        """The good samples of a line in which at least one is bad."""
        try:
            parts = _split(rows)
        except _UNREADABLE as error:
            self._reject(line, str(error))
            return []
        samples: list[Any] = []
        for part in parts:
            try:
                samples += decode(b"[%b]" % part)
            except _UNREADABLE as error:
                self._reject(bytes(part), str(error))
        return samples

    def _reject(self, line: bytes, why: str) -> None:
        if len(self._bad) < BAD_LIMIT:
            self._bad.append(BadLine(clean_bytes(line[:EXCERPT]), why))
        else:
            self._bad[-1] = self._bad[-1]._replace(lines=self._bad[-1].lines + 1)
