"""Samples as JSON arrays, a line a kind: written and read with the standard library.

``["GpuSample",[0,41,…],[1,43,…]]``: the name of the kind, and an array of fields for each sample. What a node says
in a tick is mostly the same few kinds, eight times each; reading a line costs more than reading a sample.
"""

from __future__ import annotations

import json
import os
from itertools import groupby
from operator import itemgetter
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

from collectors.samples.stream import Lent, Settings

_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, check_circular=False, separators=(",", ":")).encode


def encode(sample: NamedTuple) -> bytes:
    """Line of one sample: printable ASCII and a line feed, whatever its texts hold.

    Raises :class:`ValueError` or :class:`TypeError` for what JSON cannot say (NaN, bytes).
    """
    return _line(type(sample).__name__, [fields(sample)])


def fields(sample: NamedTuple) -> str:
    """The array of one sample's fields; printable ASCII. Raises as :func:`encode` does."""
    row = _encode(sample)
    if "\\ud" in row:  # perhaps half a surrogate pair, which the other side would refuse
        row = _encode(_whole(list(sample)))
    return row


def lines(rows: Iterable[Tuple[str, str]]) -> List[bytes]:
    """Lines of samples given as kind and :func:`fields`, in order; neighbours of one kind share a line."""
    return [_line(kind, [row for _, row in group]) for kind, group in groupby(rows, itemgetter(0))]


def _line(kind: str, rows: List[str]) -> bytes:
    return ('["%s",%s]\n' % (kind, ",".join(rows))).encode("ascii")


def _whole(value: object) -> object:
    """Replace halves of surrogate pairs in every text within."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


class Answered(NamedTuple):
    """All of an answer has been said; the program ends, or stays for the next request, or for others to connect."""


Control = Union[Settings, Lent]
CONTROLS: Dict[str, Callable[..., Control]] = {"Settings": Settings, "Lent": Lent}


def decode_control(line: bytes) -> Optional[Control]:
    """One line of the control line; None for a kind that this side does not know.

    It comes from the program that sent this one: that it can be read is all that is asked of it. Raises
    :class:`ValueError` for a line that cannot.
    """
    try:
        kind, said = json.loads(line)
        return CONTROLS[kind](*said) if kind in CONTROLS else None
    except (TypeError, RecursionError) as error:
        raise ValueError("no array of kind and fields: %s" % error) from error


def say(*samples: NamedTuple) -> None:
    """Print a line of each on standard output, all at once where that is possible."""
    view = memoryview(b"".join(map(encode, samples)))
    while view:
        view = view[os.write(1, view) :]
