"""What stores of logs give out: documents of many records, and the newest record first. Read as lines, oldest first.

Arrays of records (Google's and Azure's downloads), ``events`` of ``aws logs``, ``hits`` of Elasticsearch, ``result`` of
Loki, ``data`` of Datadog. ``gcloud logging read``, ``logcli`` and web pages begin with the newest record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from collectors.node.logs.lines import structured, times
from hangtop.session.folder.members import Member

LARGEST = 32 << 20
"""Bytes of a document, and of a log whose records are turned round."""
OBJECTS, VALUES = 200_000, 2_000_000
"""Of one document, at the most, and lines of a log: each takes ten times the room that it has in the text."""
PIECE = 256 << 10
SAMPLE = 64
"""Records by which an order, or a kind of document, is known."""
STAMPED, FALLS = 8, 4
"""Of those that many print a time, and that many times it is an earlier one than before; never a later one."""
_DOCUMENT = re.compile(rb"\s{0,64}(?:\[\s{0,64}\{|\{\s{0,64}\"[\w-]{1,24}\"\s{0,8}:\s{0,8}[\[{\"])")
_FRONT = 48
"""Characters within which a line's own time stands."""
_PARTS = re.compile(r"(?:^|/)(?P<name>[A-Za-z0-9][\w.:-]{0,120}?)(?:-\d{10,13})?$")


class Stored(NamedTuple):
    """A log as lines, oldest first; ``turned`` where its numbers are no longer those of the file's lines."""

    chunks: Iterator[bytes]
    turned: str = ""


def stored(member: Member, now: float) -> Stored:
    """The bytes of a log; ``now`` gives the year to times without one."""
    rows = member.head.split(b"\n")
    document = _DOCUMENT.match(member.head) is not None and not _is_record(rows[0])
    if not document and not _falls(rows[:-1] or rows, now):
        return Stored(member.chunks())
    parts: list[bytes] = []
    chunks = member.chunks()
    for chunk in chunks:
        parts.append(chunk)
        if member.size > LARGEST:
            return Stored(_both(parts, chunks))
    data = b"".join(parts)
    if document:
        lines = _lines(data)
        if lines is None:
            return Stored(iter(parts))
        turned = _falls(lines, now)
        return Stored(
            _pieces(lines[::-1] if turned else lines), " (its records, oldest first)" if turned else " (its records)"
        )
    if data.count(b"\n") > VALUES:
        return Stored(iter(parts))
    rows = data.split(b"\n")
    return Stored(_pieces(_turned(rows, now)), " (oldest first)") if _falls(rows, now) else Stored(iter(parts))


def _pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in larger pieces."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= PIECE:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def _both(parts: Sequence[bytes], chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield from parts
    yield from chunks


def _is_record(row: bytes) -> bool:
    """Whether a line is a whole document by itself: then each is."""
    try:
        found = json.loads(row)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and not _records(found)


def _lines(data: bytes) -> list[bytes] | None:
    """One line a record; None where it is no document of records that have a message."""
    if data.count(b"{") > OBJECTS or data.count(b",") > VALUES:
        return None
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    records = _records(document)
    texts = [json.dumps(record) for record in records]
    told = [text for text in texts[:SAMPLE] if structured.unwrapped(text, 0.0).text != text]
    if not told or len(told) * 2 < len(texts[:SAMPLE]):
        return None
    return [text.encode("utf-8", "replace") + b"\n" for text in texts]


def _records(document: Any) -> list[dict[str, Any]]:
    """The records of a document, each with what it tells of who wrote it."""
    if isinstance(document, list):
        return [_named(record) for record in document if isinstance(record, dict)]
    if not isinstance(document, dict):
        return []
    hits, data = document.get("hits"), document.get("data")
    if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
        return [
            hit["_source"] for hit in hits["hits"] if isinstance(hit, dict) and isinstance(hit.get("_source"), dict)
        ]
    if isinstance(data, dict) and isinstance(data.get("result"), list):
        return _streams(data["result"])
    for name in ("events", "data", "entries", "logs", "records"):
        if isinstance(document.get(name), list):
            return _records(document[name])
    return []


def _streams(results: Sequence[Any]) -> list[dict[str, Any]]:
    """Loki's: the values of each stream, in the order of all their times."""
    found: list[tuple[str, dict[str, Any]]] = []
    for result in results:
        stream = result.get("stream") if isinstance(result, dict) else None
        values = result.get("values") if isinstance(result, dict) else None
        if not isinstance(stream, dict) or not isinstance(values, list):
            continue
        found += [
            (value[0].zfill(20), {"line": value[1], "stream": stream})
            for value in values
            if isinstance(value, list) and len(value) > 1 and all(isinstance(part, str) for part in value[:2])
        ]
    return [record for _, record in sorted(found, key=lambda pair: pair[0])]


def _named(record: dict[str, Any]) -> dict[str, Any]:
    """A record of CloudWatch's with the host that the name of its stream tells."""
    stream = record.get("logStreamName")
    match = _PARTS.search(stream) if isinstance(stream, str) and len(stream) < 600 else None
    return record if match is None else {**record, "host": match.group("name")}


def _falls(rows: Sequence[bytes], now: float) -> bool:
    """Whether times fall from one record to the next, at the beginning and over the whole."""
    stamps = [at for at in (_stamp(row, now) for row in rows[:SAMPLE]) if at is not None]
    falls = sum(later < earlier for earlier, later in pairwise(stamps))
    rises = any(later > earlier for earlier, later in pairwise(stamps))
    if len(stamps) < STAMPED or falls < FALLS or rises:
        return False
    ends = [at for at in (_stamp(row, now) for row in rows[-SAMPLE:]) if at is not None]
    return bool(ends) and ends[-1] < stamps[0]


def _stamp(row: bytes, now: float) -> float | None:
    """The time of one record."""
    text = row[:16384].decode("utf-8", "replace")
    if text.startswith("{"):
        return structured.unwrapped(text, now).at
    found = times.find(text[:_FRONT], now) if text[:1] and text[:1] in "[(0123456789" else None
    return None if found is None else found.at


def _turned(rows: Sequence[bytes], now: float) -> Iterator[bytes]:
    """The records from the last to the first, each with the lines below it that print no time."""
    record: list[bytes] = []
    for row in reversed(rows):
        record.append(row)
        if _stamp(row, now) is not None:
            yield from (line + b"\n" for line in reversed(record) if line)
            record = []
    yield from (line + b"\n" for line in reversed(record) if line)
