"""Samples as JSON arrays, a line a kind: written and read with the standard library.

``["GpuSample",[0,"P0",…],[1,"P0",…]]``: the name of the kind, and an array of fields for each sample. What a node says
in a tick is mostly the same few kinds, eight times each; reading a line costs more than reading a sample.
"""

from __future__ import annotations

import json
from itertools import groupby
from operator import itemgetter
from typing import Iterable, List, NamedTuple, Optional, Tuple, Union

from collectors.samples.control import Beat, Lent, Settings

LINE_LIMIT = 1 << 20
"""Bytes after which a control line without an end is given up."""

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


Control = Union[Settings, Beat, Lent]


def decode_control(line: bytes) -> Optional[Control]:
    """One line of the control line; None for a kind that this side does not know.

    Raises :class:`ValueError` for a line that is none.
    """
    try:
        document = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(document, list) or len(document) != 2 or not isinstance(document[1], list):
        raise ValueError("no array of kind and fields")
    kind, said = document
    if kind == "Beat":
        return Beat(*said[:1])
    if kind == "Settings":
        return settings(said)
    if kind == "Lent":
        name, content = _texts(said)[:2] if len(said) >= 2 else ("", "")
        return Lent(name, content)
    return None


def settings(said: List[object]) -> Settings:
    """Settings from the fields of a line. Raises :class:`ValueError` when they cannot be."""
    if len(said) != len(Settings._fields):
        raise ValueError("settings have other fields")
    interval, phase, job, log_globs, on_view, not_mine, sudo = said
    if not isinstance(interval, (int, float)) or not 0.05 <= interval <= 3600:
        raise ValueError("interval is no number of seconds")
    if not isinstance(phase, (int, float)) or not 0 <= phase < 1:
        raise ValueError("phase is no fraction")
    if job is not None and (len(_texts(job)) != 2):
        raise ValueError("job is no key and value")
    return Settings(
        float(interval),
        float(phase),
        None if job is None else _texts(job),
        _texts(log_globs),
        _texts(on_view),
        _texts(not_mine),
        sudo is True,
    )


def _texts(value: object) -> List[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("no list of texts")
    return value
