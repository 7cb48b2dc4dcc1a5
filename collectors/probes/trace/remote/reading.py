"""Reads Chrome's trace JSON (torch.profiler, Kineto), plain or gzip, event by event: a file of any size fits in memory.

The events are the member ``traceEvents`` of an object, or the whole document is the array. ``distributedInfo`` stands
before them (torch.profiler) or behind them (asked for by dynolog). A trace that is copied while it is written may end
anywhere.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import zlib
from typing import Any, Callable, Dict, Iterator, Tuple

from collectors.node.files import opened

CHUNK = 2 << 20
"""Bytes that are read at once."""
LARGEST_HEAD = 64 << 20
LARGEST_EVENT = 8 << 20

Read = Callable[[int], bytes]

_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_ARRAY = re.compile(r"\ufeff?\s*\[\s*[\]{]")
_BETWEEN = re.compile(r"[\s,]*")
_NEXT_EVENT = re.compile(r'\{\s*"(?:ph|name|cat|pid|tid|ts)"\s*:')
_UNCOUNTED = re.compile(
    r'\{\s*"ph"\s*:\s*"(?:[^X"]|X"\s*,\s*"cat"\s*:\s*"'
    r'(?:python_function|cuda_runtime|cuda_driver|cuda_sync|hip_runtime|overhead|Trace)")'
)
"""Begins an event that does not count: Python frames, launches, flows. Most of a trace, so they are not decoded."""
_FOLLOWING = re.compile(r'\}\s*,\s*(?=\{\s*"ph"\s*:)')
_MEMBERS = ("distributedInfo", "baseTimeNanoseconds")
_GZIP_MAGIC, _GZIP = b"\x1f\x8b", 31
_PACKED = 1 << 18


class BadTrace(ValueError):
    """No trace; the text says why."""


def looks_like(head: bytes) -> bool:
    """Whether a file that begins so may be a trace."""
    text = head.decode("utf-8", "replace")
    known = _EVENTS.search(text) is not None or '"deviceProperties"' in text
    return known or (_ARRAY.match(text) is not None and '"ph"' in text)


class TraceFile:
    """The uncompressed bytes of a file; a context manager. Opening raises :class:`OSError`."""

    def __init__(self, path: str) -> None:
        self._file = os.fdopen(opened(path), "rb")
        self.size = os.fstat(self._file.fileno()).st_size
        self.damage = ""
        """Why it could not be read to its end."""
        self._inflater = zlib.decompressobj(_GZIP) if self._file.read(2) == _GZIP_MAGIC else None
        self._file.seek(0)

    def __enter__(self) -> "TraceFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, count: int) -> bytes:
        """The next bytes; none at the end, also where that comes too soon."""
        try:
            return self._file.read(count) if self._inflater is None else self._inflate(count)
        except zlib.error:
            self.damage = "the compressed data is damaged"
        except OSError as error:
            self.damage = os.strerror(error.errno or 0)
        return b""

    def _inflate(self, count: int) -> bytes:
        """Not with the module gzip, which keeps what it has read to itself where the data ends too soon."""
        assert self._inflater is not None
        while not self._inflater.eof and not self.damage:
            packed = self._inflater.unconsumed_tail or self._file.read(_PACKED)
            if not packed:
                self.damage = "the compressed data ends too soon"
            data = self._inflater.decompress(packed, count)
            if data:
                return data
        return b""


class TraceEvents:
    """Iterates over the events of a document once; the other attributes hold when the iteration has ended."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self.about: Dict[str, Any] = {}
        """``distributedInfo`` and ``baseTimeNanoseconds``, as far as the document has them."""
        self.damaged = 0
        """Events that could not be decoded."""
        self.whole = False
        """The end of the array was met."""

    def __iter__(self) -> Iterator[Any]:
        """Go through the document. Raises :class:`BadTrace` when it has no events to begin with."""
        decode = json.JSONDecoder().raw_decode
        text, place = self._opening()
        ended = False
        while True:
            between = _BETWEEN.match(text, place)
            place = between.end() if between is not None else place
            if text.startswith("]", place):
                self.whole = True
                self._note(text[place:] + self._more(LARGEST_EVENT))
                return
            following = _FOLLOWING.search(text, place) if _UNCOUNTED.match(text, place) else None
            if following is not None:
                place = following.end()
                continue
            try:
                event, place = decode(text, place)
            except (ValueError, RecursionError):
                if not ended and len(text) - place < LARGEST_EVENT:
                    more = self._more(CHUNK)
                    ended = not more
                    text, place = text[place:] + more, 0
                    continue
                self.damaged += place < len(text)
                found = _NEXT_EVENT.search(text, place + 1)
                if found is None:
                    return
                place = found.start()
            else:
                yield event

    def _more(self, size: int) -> str:
        return self._utf8.decode(self._read(size))

    def _opening(self) -> Tuple[str, int]:
        """Read up to the first event."""
        head = ""
        while len(head) < LARGEST_HEAD:
            more = self._more(CHUNK)
            head += more
            found = _EVENTS.search(head) or _ARRAY.match(head)
            if found:
                self._note(head[: found.start()])
                return head, head.index("[", found.start()) + 1
            if not more:
                break
        raise BadTrace("no trace: it has no traceEvents" if head.strip() else "empty")

    def _note(self, part: str) -> None:
        """Take the members that say whose trace it is."""
        for name in _MEMBERS:
            place = part.find('"%s"' % name)
            if place >= 0 and name not in self.about:
                value = part[place + len(name) + 2 :].lstrip(" :\t\r\n")
                try:
                    self.about[name] = json.JSONDecoder().raw_decode(value)[0]
                except (ValueError, RecursionError):
                    continue
