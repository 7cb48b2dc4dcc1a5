"""Profiler traces (Chrome's trace event JSON as Kineto and torch.profiler write it), plain or gzip, of any size.

The same scanner and the same figures as on the nodes (``collectors.probes.trace.remote``), with msgspec decoding the
members that are needed and skipping the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from collectors.fleet.clean import clean_value
from collectors.formats import BadFormat
from collectors.probes.trace.remote import loose
from collectors.probes.trace.remote.files import TraceFile
from collectors.probes.trace.remote.reduction import COUNTED, NAMED, Reduction
from collectors.probes.trace.remote.scan import BadTrace, EventScanner, looks_like
from collectors.samples.traces import RankTrace

__all__ = ["looks_like", "of_stream", "read"]

_NONE = msgspec.Raw(b"{}")


class _Event(msgspec.Struct, gc=False):
    """What is read of an event; all else is skipped without being decoded."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = -1e18
    dur: float = -1.0
    args: msgspec.Raw = _NONE


_EVENTS = msgspec.json.Decoder(list[_Event])


def read(path: str, advance: Callable[[int], None] = lambda _: None) -> RankTrace:
    """The figures of the trace in a file; ``advance`` is told how many bytes were read, uncompressed.

    Raises :class:`BadFormat` when it is no trace, :class:`OSError` when it cannot be opened. A damaged or truncated
    trace gives what it has, and says so.
    """
    with TraceFile(path) as file:

        def some(count: int) -> bytes:
            data = file.read(count)
            advance(len(data))
            return data

        return of_stream(some, path, file.size, lambda: file.why)


def of_stream(read: Callable[[int], bytes], path: str, size: int, damage: Callable[[], str]) -> RankTrace:
    """The figures of a trace that is read piece by piece; ``damage`` tells afterwards why it ended too soon.

    Raises :class:`BadFormat` when it is no trace.
    """
    scanner, reduction = EventScanner(read, _decode), Reduction()
    try:
        for events in scanner:
            _take(reduction, events)
    except BadTrace as error:
        raise BadFormat(f"{error}{f': {damage()}' if damage() else ''}") from error
    why = damage() or ("" if scanner.whole else "it ends before its last event")
    cleaned: RankTrace = clean_value(reduction.result(scanner.about, path, size, scanner.damaged, why))
    return loose.with_rank(cleaned)


def _decode(data: bytes) -> list[Any]:
    """Events of an array: structs, or plain dictionaries where one of them has members of other types."""
    try:
        return _EVENTS.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return loose.decode(data)


def _take(reduction: Reduction, events: list[Any]) -> None:
    odd = [event for event in events if not isinstance(event, _Event)]
    if odd:  # they may stand among the others where a part of the array was read one by one
        loose.take(reduction, odd)
        events = [event for event in events if isinstance(event, _Event)]
    take, kind_of = reduction.take, reduction.kind_of
    nothing: Mapping[str, object] = {}
    for event in events:
        # most events are Python frames and launches: they are left out before anything else is asked
        if event.cat in COUNTED and event.ph == "X":
            kind = kind_of(event.cat, event.name)
            take(kind, event.name, event.ts, event.dur, _args(event.args) if kind in NAMED else nothing)


def _args(raw: msgspec.Raw) -> Mapping[str, object]:
    try:
        args = json.loads(bytes(raw))
    except (ValueError, RecursionError):
        return {}
    return args if isinstance(args, dict) else {}
