"""The probe's arithmetic: sizes, the tournament of pairs, bandwidths in nccl-tests' definitions."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.probes.allreduce.plan import doubled, parse_sizes, tournament
from collectors.probes.allreduce.run import bandwidths


def test_sizes_double_from_first_to_last() -> None:
    assert parse_sizes("1M:8M") == (1 << 20, 1 << 21, 1 << 22, 1 << 23)
    assert parse_sizes("64K") == (65536,)
    assert doubled(4, 5) == (4,)


@pytest.mark.parametrize("text", ["", "8M:1M", "one", "1T", "-4", "0:16"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_sizes(text)


@given(st.integers(2, 24))
def test_every_pair_meets_once_and_nobody_plays_twice_in_a_round(count: int) -> None:
    names = tuple(f"node{number}" for number in range(count))
    rounds = tournament(names)
    met = [frozenset(pair) for pairs in rounds for pair in pairs]
    assert sorted(map(sorted, met)) == sorted(map(sorted, map(frozenset, combinations(names, 2))))
    for pairs in rounds:
        busy = [name for pair in pairs for name in pair]
        assert len(busy) == len(set(busy))


@pytest.mark.parametrize(
    ("op", "world", "factor"),
    [("all_reduce", 8, 1.75), ("all_gather", 8, 0.875), ("reduce_scatter", 4, 0.75), ("all_to_all", 2, 0.5),
     ("broadcast", 8, 1.0), ("send_recv", 8, 1.0), ("all_reduce", 1, 1.0)],
)  # fmt: skip
def test_bus_bandwidth_is_nccl_tests_own(op: str, world: int, factor: float) -> None:
    assert bandwidths(op, 1_000_000_000, 0.5, world) == pytest.approx((2.0, 2.0 * factor))
