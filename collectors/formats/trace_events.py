"""Reads Chrome's trace JSON (torch.profiler, Kineto), event by event: a file of any size fits in memory.

The events are the member ``traceEvents`` of an object, or the whole document is the array. ``distributedInfo`` stands
before them (torch.profiler) or behind them (asked for by dynolog). A trace that is copied while it is written may end
anywhere.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from collectors.formats import BadFormat

CHUNK = 2 << 20
"""Bytes that are read at once."""
LARGEST_HEAD, LARGEST_EVENT = 64 << 20, 8 << 20

Read = Callable[[int], bytes]

_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_ARRAY = re.compile(r"\ufeff?\s*\[\s*[\]{]")
_BETWEEN = re.compile(r"[\s,]*")
_UNCOUNTED = re.compile(
    r'\{\s*"ph"\s*:\s*"(?:[^X"]|X"\s*,\s*"cat"\s*:\s*"'
    r'(?:python_function|cuda_runtime|cuda_driver|cuda_sync|hip_runtime|overhead|Trace)")'
)
"""Begins an event that does not count: Python frames, launches, flows. Most of a trace, so they are not decoded."""
_FOLLOWING = re.compile(r'\}\s*,\s*(?=\{\s*"ph"\s*:)')
_MEMBERS = ("distributedInfo", "baseTimeNanoseconds")


def looks_like(head: bytes) -> bool:
    """Whether a file that begins so may be a trace."""
    text = head.decode("utf-8", "replace")
    known = _EVENTS.search(text) is not None or '"deviceProperties"' in text
    return known or (_ARRAY.match(text) is not None and '"ph"' in text)


class TraceEvents:
    """Iterates over the events of a document once; the other attributes hold when the iteration has ended."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self.about: dict[str, Any] = {}
        """``distributedInfo`` and ``baseTimeNanoseconds``, as far as the document has them."""
        self.whole = False
        """The end of the array was met."""

    def __iter__(self) -> Iterator[Any]:
        """Go through the document. Raises :class:`BadFormat` when it has no events to begin with."""
        decode = json.JSONDecoder().raw_decode
        text, place = "", 0
        while not (found := _EVENTS.search(text) or _ARRAY.match(text)):
            more = self._more(CHUNK) if len(text) < LARGEST_HEAD else ""
            if not more:
                raise BadFormat("no trace: it has no traceEvents" if text.strip() else "empty")
            text += more
        self._note(text[: found.start()])
        place = text.index("[", found.start()) + 1
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
                more = self._more(CHUNK) if len(text) - place < LARGEST_EVENT else ""
                if not more:
                    return
                text, place = text[place:] + more, 0
            else:
                yield event

    def _more(self, size: int) -> str:
        return self._utf8.decode(self._read(size))

    def _note(self, part: str) -> None:
        """Take the members that say whose trace it is."""
        for name in _MEMBERS:
            place = part.find(f'"{name}"')
            if place >= 0 and name not in self.about:
                value = part[place + len(name) + 2 :].lstrip(" :\t\r\n")
                try:
                    self.about[name] = json.JSONDecoder().raw_decode(value)[0]
                except (ValueError, RecursionError):
                    continue
