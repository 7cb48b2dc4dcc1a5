"""Read Chrome's trace JSON (torch.profiler, Kineto) event by event, so that memory does not grow with the file.

The events are the member ``traceEvents`` of an object, or the document is an array of events. ``distributedInfo`` comes
before the events (torch.profiler) or after them (on-demand traces of dynolog). A trace copied while it is written may
end anywhere.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from collectors.formats import BadFormat

CHUNK = 2 << 20
"""Bytes per read."""
LARGEST_HEAD, LARGEST_EVENT = 64 << 20, 8 << 20

Read = Callable[[int], bytes]

_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_ARRAY = re.compile(r"\ufeff?\s*\[\s*[\]{]")
_BETWEEN = re.compile(r"[\s,]*")
_UNCOUNTED = re.compile(
    r'\{\s*"ph"\s*:\s*"(?:[^X"]|X"\s*,\s*"cat"\s*:\s*"'
    r'(?:python_function|cuda_runtime|cuda_driver|cuda_sync|hip_runtime|overhead|Trace)")'
)
"""Start of an event that does not count (Python frames, launches, flows). Most events are such, so none is decoded."""
_FOLLOWING = re.compile(r'\}\s*,\s*(?=\{\s*"ph"\s*:)')
_MEMBERS = ("distributedInfo", "baseTimeNanoseconds")


def looks_like(head: bytes) -> bool:
    """Whether a file with this beginning may be a trace."""
    text = head.decode("utf-8", "replace")
    known = _EVENTS.search(text) is not None or '"deviceProperties"' in text
    return known or (_ARRAY.match(text) is not None and '"ph"' in text)


class TraceEvents:
    """Iterates over the events of a document once; the attributes are valid after the iteration."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self.about: dict[str, Any] = {}
        """``distributedInfo`` and ``baseTimeNanoseconds``, if the document has them."""
        self.whole = False
        """Whether the end of the array was read."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the events. Raises :class:`BadFormat` if no array of events is found."""
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
        """Keep the members about the trace as a whole."""
        for name in _MEMBERS:
            place = part.find(f'"{name}"')
            if place >= 0 and name not in self.about:
                value = part[place + len(name) + 2 :].lstrip(" :\t\r\n")
                try:
                    self.about[name] = json.JSONDecoder().raw_decode(value)[0]
                except (ValueError, RecursionError):
                    continue
