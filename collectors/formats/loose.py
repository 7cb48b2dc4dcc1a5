"""Typed values from untrusted documents; values of other types are dropped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from collectors.formats import BadFormat

Loose = Mapping[Any, Any]
CONTAINERS = 2_000_000
"""Most lists and objects of a JSON document that is read as a whole."""
VALUES = 8_000_000
"""Most values of such a document."""


def document(data: bytes) -> object:
    """Parse JSON. Raises :class:`BadFormat` if damaged, or if it would take many times the memory of its bytes."""
    if data.count(b"{") + data.count(b"[") > CONTAINERS or data.count(b",") > VALUES:
        raise BadFormat(f"JSON of more than {CONTAINERS:,} lists and objects, or {VALUES:,} values")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadFormat(f"damaged JSON: {error}") from error


def integer(value: object) -> int | None:
    """An int, or an int written as text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else None
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) < 20:
        return int(value)
    return None


def text(value: object, longest: int = 1000) -> str:
    """A string, cut; empty for anything else."""
    return value[:longest] if isinstance(value, str) else ""


def mapping(value: object) -> Loose:
    """A mapping; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def items(value: object, most: int) -> list[Any]:
    """The first elements of a list or tuple; none for anything else."""
    return list(value[:most]) if isinstance(value, list | tuple) else []
