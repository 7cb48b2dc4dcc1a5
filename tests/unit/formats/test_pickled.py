"""Pickles of plain data are read, and all others refused."""

import pickle
import struct
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats import BadFormat, pickled
from collectors.formats.pickled import load

SHARED = ["a", {"b": (1, 2.5, None)}]
PLAIN = {"version": "2.4", "entries": [{"frames": SHARED, "n": -(2**70), "t": (True, "x")}, {"frames": SHARED}], 3: []}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_comes_back(protocol: int) -> None:
    assert load(pickle.dumps(PLAIN, protocol)) == PLAIN


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


def test_a_number_beyond_64_bits_spoils_no_dump() -> None:
    assert load(pickle.dumps({"pg_status": 1 << 127})) == {"pg_status": 1 << 127}


def laughs(levels: int = 12) -> bytes:
    """One list of ten references to a list of ten references, and so on."""
    value: list[object] = ["x" * 1000]
    for _ in range(levels):
        value = [value] * 10
    return pickle.dumps(value, 2)


def deep(levels: int) -> bytes:
    return b"\x80\x02N" + b"\x85" * levels + b"."


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02Nr\xff\xff\xff\x1f.",  # LONG_BINPUT: a memo of half a gigabyte
        b"\x80\x02Nr\x00\x00\x00\x01.",
        b"\x80\x02]T" + struct.pack("<I", 1 << 25) + b"a" * (1 << 25) + b"ar\x00\x00\x00\x02.",  # and bytes to hide it
        laughs(),
        deep(100),
        deep(1_000_000),
        b"\x80\x02}" + deep(30)[2:-1] + b"Ns.",  # a tuple as a key
        b"\x80\x02]q\x00h\x00a.",
        b"\x80\x02]q\x00]q\x01h\x00ah\x01a.",  # two that hold each other
        b"\x80\x02(]q\x00]h\x00a0t.",
        b"\x80\x05\x96" + struct.pack("<Q", 10 << 30) + b".",  # BYTEARRAY8
        b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b".",
        b"\x80\x02\x8b\xff\xff\xff\x7f.",  # LONG4
        b"\x80\x02\x8a\xff" + b"\x01" * 255 + b".",
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x02cbuiltins\nlist\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02Nq\x00K\x01Q.",
        b"\x80\x02a.",
        b"\x80\x02](" + b"}" * 2_100_000 + b"e.",
        b"\x80\x02(",
        b"",
        b"\x80\x02e.",
        b"\x80\x02h\x05.",
    ],
    ids=lambda data: repr(data[:24]),
)
def test_what_is_more_is_refused_at_once(data: bytes) -> None:
    began = time.thread_time()
    with pytest.raises(BadFormat):
        load(data)
    took = time.thread_time() - began
    tracemalloc.start()
    with pytest.raises(BadFormat):
        load(data)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert took < 5.0
    assert most < 300 << 20


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickled, "VALUES", 1000)
    assert load(pickle.dumps([0] * 900)) == [0] * 900
    with pytest.raises(BadFormat, match="more than 1,000 values"):
        load(pickle.dumps([0] * 1100))


def test_ten_bytes_that_refer_a_thousand_times_to_what_is_small_are_plain() -> None:
    assert load(pickle.dumps([SHARED] * 1000, 2)) == [SHARED] * 1000


def kinds(value: object) -> set[type]:
    """Types of a value and of all within it."""
    within: list[object] = []
    if isinstance(value, dict):
        within = [*value, *value.values()]
    elif isinstance(value, list | tuple):
        within = list(value)
    return {type(value)}.union(*map(kinds, within))


@given(st.binary(max_size=200).map(lambda tail: b"\x80\x02" + tail), st.data())
def test_any_bytes_are_read_or_refused(data: bytes, more: st.DataObject) -> None:
    whole = bytearray(pickle.dumps(PLAIN, 2))
    whole[more.draw(st.integers(0, len(whole) - 1))] = more.draw(st.integers(0, 255))
    for each in (data, bytes(whole)):
        try:
            built = load(each)
        except BadFormat:
            continue
        assert kinds(built) <= {type(None), bool, int, float, str, bytes, list, tuple, dict}
