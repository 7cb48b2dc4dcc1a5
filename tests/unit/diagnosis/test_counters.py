"""Whether some of a port's counters moved is told as by going through all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.counters import Counters

NAMES = ("symbol_error", "link_downed", "port_rcv_data", "port_xmit_data")
SOME = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3))


@given(now=SOME, first=SOME, wanted=st.frozensets(st.sampled_from(NAMES)))
def test_moved_is_what_going_through_all_of_them_tells(
    now: dict[str, int], first: dict[str, int], wanted: frozenset[str]
) -> None:
    counters, before = Counters.of(now), Counters.of(first)
    assert counters.moved(before, wanted) == (not wanted.isdisjoint(counters.since(before)))


def test_counters_of_one_order_are_told_by_their_places() -> None:
    first, now = Counters(NAMES, (0, 1, 2, 3)), Counters(NAMES, (0, 1, 9, 3))
    assert now.moved(first, frozenset({"port_rcv_data"}))
    assert not now.moved(first, frozenset({"symbol_error", "link_downed", "unknown"}))


@given(told=st.dictionaries(st.sampled_from(NAMES), st.integers(-(1 << 70), 1 << 70)))
def test_packed_counters_are_the_same(told: dict[str, int]) -> None:
    counters = Counters.of(told)
    packed = counters.packed()
    assert packed == counters == told
    assert packed.numbers == counters.numbers
    assert packed.updated({"link_downed": 5}) == {**told, "link_downed": 5}
    assert packed.since(counters) == counters.since(packed) == {}
