"""Lines of our programs on nodes, ``["Kind", [fields]]``, decoded: bounded by type and without control codes.

What a node says is hostile wherever it enters. The stream's lines go through :mod:`collectors.fleet.decode`; answers of
what is asked once go through this, whatever they answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, overload

import msgspec

from collectors.fleet import bounds
from collectors.fleet.clean import clean_value

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")

Unreadable = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding raises; UnicodeDecodeError is a ValueError."""

_NAME = msgspec.json.Decoder(tuple[str, msgspec.Raw]).decode


def answer(kind: type[T]) -> Callable[[bytes], T]:
    """A decoder of lines of one kind, whatever they call themselves. It raises one of :data:`Unreadable`."""
    bounds.bind(kind)
    decode = msgspec.json.Decoder(kind).decode

    def of(line: bytes) -> T:
        value = decode(_NAME(line)[1])
        # what is printable ASCII without escapes holds nothing to clean; megabytes in base 64 are
        plain = line.isascii() and b"\\" not in line and b"\x7f" not in line
        cleaned: T = value if plain else clean_value(value)
        return cleaned

    return of


@overload
def one_of(first: type[T], second: type[U], /) -> Callable[[bytes], T | U | None]: ...
@overload
def one_of(first: type[T], second: type[U], third: type[V], /) -> Callable[[bytes], T | U | V | None]: ...
@overload
def one_of(*kinds: type) -> Callable[[bytes], object]: ...
def one_of(*kinds: type) -> Callable[[bytes], object]:
    """A decoder of lines that name their kind; None for one of another. It raises one of :data:`Unreadable`."""
    decoders: dict[str, Callable[[bytes], object]] = {kind.__name__: answer(kind) for kind in kinds}

    def of(line: bytes) -> object:
        decode = decoders.get(_NAME(line)[0])
        return None if decode is None else decode(line)

    return of
