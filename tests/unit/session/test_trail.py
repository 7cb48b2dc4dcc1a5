"""Looks of the last minute: none of the latest is missing, older ones thin out, and nothing is rounded."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.samples.gpus import GpuSample
from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.job import Look
from hangtop.session.trail import LOOKS, RECENT, Looks, Trail, gpu_rows, pulses
from tests.support.made import gpu_row, pulse


def rows(count: int) -> Trail[GpuSample]:
    """A trail of so many looks, one a second."""
    trail = gpu_rows()
    for second in range(count):
        trail.append(float(second), gpu_row(0, power=second / 7, odd={"power": str(second)}))
    return trail


def seconds(looks: Looks[GpuSample]) -> list[int]:
    return [int(look.at) for look in looks]


def test_an_empty_trail_is_false_and_has_no_last_look() -> None:
    trail = pulses()
    assert not trail
    assert list(trail) == []
    with pytest.raises(IndexError):
        trail[-1]


@given(st.integers(1, 4 * LOOKS))
def test_the_latest_are_all_there_and_the_oldest_is_a_minute_old(count: int) -> None:
    trail = rows(count)
    have = seconds(trail)
    assert len(trail) == len(have)
    assert have == sorted(set(have))
    assert have[-RECENT - 1 :] == list(range(count))[-RECENT - 1 :]
    assert count - have[0] >= min(count, LOOKS)
    assert max((b - a for a, b in pairwise(have)), default=0) <= LOOKS // 8


@given(st.integers(1, 2 * LOOKS), st.integers(-90, 89), st.integers(-90, 89))
def test_it_reads_like_a_tuple(count: int, start: int, stop: int) -> None:
    trail = rows(count)
    whole = tuple(trail)
    assert tuple(trail[start:]) == whole[start:]
    assert tuple(trail[:stop]) == whole[:stop]
    assert tuple(trail[start:stop]) == whole[start:stop]
    assert tuple(reversed(trail)) == whole[::-1]
    if -len(whole) <= start < len(whole):
        assert trail[start] == whole[start]


def test_what_is_frozen_stays_and_the_last_value_can_be_held() -> None:
    trail = rows(40)
    plain, held = trail.frozen(), trail.frozen(45.5)
    before = seconds(trail)
    for second in range(40, 140):
        trail.append(float(second), gpu_row(0))
    assert seconds(plain) == before
    assert (held[-1].at, held[-2].at) == (45.5, 39.0)
    assert held[-1].value == held[-2].value
    assert len(held) == len(plain) + 1
    assert seconds(trail)[0] > 39


@given(
    st.lists(
        st.builds(
            pulse,
            st.integers(1, 2**22),
            wchan=st.text(max_size=20),
            cpu_user=st.floats(0, 1e9),
            voluntary_switches=st.integers(0, 2**64 - 1),
            read_bytes=st.none() | st.integers(0, 2**63 - 1),
            idle_since=st.none() | st.floats(0, 2e9),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_looks_come_back_as_they_were(samples: list[RankPulse]) -> None:
    trail = pulses()
    for second, sample in enumerate(samples):
        trail.append(second / 3, sample)
    assert list(trail) == [Look(second / 3, sample) for second, sample in enumerate(samples)]


def test_a_count_that_no_kernel_has_is_not_kept() -> None:
    trail = pulses()
    trail.append(1.0, pulse(7, rss=1 << 70))
    assert trail[-1].value.rss == 1 << 70
    trail.append(2.0, pulse(7))
    assert [look.at for look in trail] == [2.0]
