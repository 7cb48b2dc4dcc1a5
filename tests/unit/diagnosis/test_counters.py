"""Counters of a port, and what moved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.counters import Counters

SOME = st.dictionaries(st.sampled_from(["link_downed", "symbol_error", "port_rcv_data"]), st.integers(0, 3))


@given(now=SOME, first=SOME)
def test_what_moved_is_what_both_know_and_differs(now: dict[str, int], first: dict[str, int]) -> None:
    moved = {name: number - first[name] for name, number in now.items() if name in first and number != first[name]}
    assert Counters.of(now).since(Counters.of(first)) == moved


@given(before=SOME, news=SOME)
def test_news_change_what_they_name_alone(before: dict[str, int], news: dict[str, int]) -> None:
    assert Counters.of(before).updated(news) == {**before, **news}
