"""Pickles of plain data are read, and all others refused."""

import pickle
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats import BadFormat, pickled
from collectors.formats.pickled import load


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
        max_leaves=30,
    ),
    st.integers(2, 5),
)
def test_any_plain_data_comes_back(value: object, protocol: int) -> None:
    assert load(pickle.dumps(value, protocol)) == value


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


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickled, "VALUES", 1000)
    assert load(pickle.dumps([0] * 900)) == [0] * 900
    with pytest.raises(BadFormat, match="more than 1,000 values"):
        load(pickle.dumps([0] * 1100))


@given(st.binary(max_size=200), st.integers(0, 60), st.integers(0, 255))
def test_any_bytes_are_read_or_refused(tail: bytes, where: int, put: int) -> None:
    whole = bytearray(pickle.dumps({"version": "2.4", "entries": [{"frames": ["a"], "n": 2.5}], 3: []}, 2))
    whole[where % len(whole)] = put
    for data in (b"\x80\x02" + tail, bytes(whole)):
        try:
            load(data)
        except BadFormat:
            continue
