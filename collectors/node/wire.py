"""Samples as JSON arrays, one line per kind, encoded and decoded with the standard library.

``["GpuSample",[0,41,…],[1,43,…]]``: the name of the kind, and an array of fields for each sample. A tick mostly has
a few kinds with eight samples each, and decoding costs more per line than per sample.
"""

from __future__ import annotations

import json
from itertools import groupby
from operator import itemgetter
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

from collectors.node.files import write_all
from collectors.samples.stream import Lent, Settings

_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, check_circular=False, separators=(",", ":")).encode


def encode(sample: NamedTuple) -> bytes:
    """Line of one sample: printable ASCII and a line feed, whatever the sample contains.

    Raises :class:`ValueError` or :class:`TypeError` for values that JSON cannot encode (NaN, bytes).
    """
    return _line(type(sample).__name__, [fields(sample)])


def fields(sample: NamedTuple) -> str:
    """The array of one sample's fields; printable ASCII. Raises as :func:`encode` does."""
    row = _encode(sample)
    if "\\ud" in row:  # perhaps half a surrogate pair, which the receiver would refuse
        row = _encode(_whole(list(sample)))
    return row


def lines(rows: Iterable[Tuple[str, str]]) -> List[bytes]:
    """Lines of samples given as kind and :func:`fields`, in order; consecutive samples of one kind share a line."""
    return [_line(kind, [row for _, row in group]) for kind, group in groupby(rows, itemgetter(0))]


def _line(kind: str, rows: List[str]) -> bytes:
    return ('["%s",%s]\n' % (kind, ",".join(rows))).encode("ascii")


def _whole(value: object) -> object:
    """Replace lone surrogates in every text within ``value``."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


class Answered(NamedTuple):
    """End of an answer; the program then ends, waits for the next request, or waits for others to connect."""


Control = Union[Settings, Lent]
CONTROLS: Dict[str, Callable[..., Control]] = {"Settings": Settings, "Lent": Lent}


def decode_control(line: bytes) -> Optional[Control]:
    """Decode one line of the control line; None for an unknown kind.

    The sender is trusted, so types of fields are not checked. Raises :class:`ValueError` for a malformed line.
    """
    try:
        kind, said = json.loads(line)
        return CONTROLS[kind](*said) if kind in CONTROLS else None
    except (TypeError, RecursionError) as error:
        raise ValueError("no array of kind and fields: %s" % error) from error


def say(*samples: NamedTuple) -> None:
    """Print one line per sample on standard output, in a single write if possible."""
    write_all(1, b"".join(map(encode, samples)))
