"""Pickles of plain data are read, and all others refused."""

import pickle
import struct

import pytest

from collectors.formats import BadFormat
from collectors.formats.pickled import load


def laughs(levels: int = 12) -> bytes:
    """One list of ten references to a list of ten references, and so on."""
    value: list[object] = ["x" * 1000]
    for _ in range(levels):
        value = [value] * 10
    return pickle.dumps(value, 2)


@pytest.mark.parametrize(
    "data",
    [
        laughs(),
        b"\x80\x02N" + b"\x85" * 100_000 + b".",
        b"\x80\x02]q\x00h\x00a.",
        b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b".",
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x02cbuiltins\nlist\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02Nq\x00K\x01Q.",
        b"\x80\x02a.",
        b"\x80\x02(",
        b"",
        b"\x80\x02e.",
        b"\x80\x02h\x05.",
    ],
    ids=lambda data: repr(data[:24]),
)
def test_what_is_more_is_refused(data: bytes) -> None:
    with pytest.raises(BadFormat):
        load(data)
