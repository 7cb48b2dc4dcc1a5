"""Looks of the last minute: none of the latest is missing, older ones thin out, and nothing is rounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.samples.gpus import GpuSample
from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.job import Look
from hangtop.session.state.past import (
    AT_ONCE,
    BLOCK,
    BLOCKS,
    RECENT,
    ROWS,
    SPARSE,
    Growing,
    gpu_rows,
    packed,
    pulses,
    unpacked,
)
from hangtop.session.state.trail import Looks, Trail
from tests.support.made import gpu_row, pulse


def grown(
    seconds: Sequence[int], others: Sequence[int] = (), sparing: Callable[[int], bool] = lambda second: True
) -> tuple[Growing[GpuSample], Trail[GpuSample]]:
    """A node's past with a row of GPU 0 in each of these seconds, and of GPUs 1 to 3 in those of ``others``."""
    past = gpu_rows()
    trail = Trail(past, 0)
    for second in sorted({*seconds, *others}):
        samples = [gpu_row(gpu, power=second / 7, odd={"power": str(gpu)}) for gpu in range(4)]
        came = (samples[:1] if second in set(seconds) else []) + (samples[1:] if second in set(others) else [])
        past.append(float(second), came, sparing=sparing(second))
        if second in set(seconds):
            trail.take(float(second), samples[0])
    return past, trail


def seconds(looks: Looks[GpuSample]) -> list[int]:
    return [int(look.at) for look in looks]


def test_an_empty_trail_is_false_and_has_no_last_look() -> None:
    trail = Trail(pulses(), 7)
    assert not trail
    assert list(trail) == []
    with pytest.raises(IndexError):
        trail[-1]


@given(st.integers(1, 4 * ROWS), st.booleans())
def test_the_latest_are_all_there_and_the_oldest_is_a_minute_old(count: int, among_others: bool) -> None:
    _, trail = grown(range(count), range(0, count, 3) if among_others else ())
    have = seconds(trail)
    assert len(trail) == len(have)
    assert have == sorted(set(have))
    assert have[-RECENT:] == list(range(count))[-RECENT:]
    assert count - have[0] >= min(count, ROWS)
    assert max((b - a for a, b in pairwise(have)), default=0) <= BLOCK
    assert all(look.value.odd == {"power": "0"} for look in trail)


@given(st.integers(1, 4 * ROWS), st.sets(st.integers(0, 4 * ROWS)))
def test_it_is_the_same_however_many_rows_of_a_block_are_packed_at_once(count: int, plain: set[int]) -> None:
    past, trail = grown(range(count), sparing=lambda second: second not in plain)
    _, expected = grown(range(count))
    assert list(trail) == list(expected)
    assert list(trail.frozen(past.frozen())) == list(expected)
    assert list(Trail(copy(past), 0, (trail.newest, trail.at, None), 0.0)) == list(expected)


@given(st.sets(st.integers(0, 3 * ROWS), min_size=1))
def test_what_moves_now_and_then_leaves_a_look_in_each_block(came: set[int]) -> None:
    """Others move every second: of each block in which this one moved at all, something is left."""
    _, trail = grown(sorted(came), range(3 * ROWS + 1))
    have, last = seconds(trail), 3 * ROWS
    assert have == sorted(set(have))
    assert set(have) <= came
    assert have[-1] == max(came), "the newest stays, however old it is"
    whole = last - last % BLOCK - BLOCKS * BLOCK
    assert [second for second in have if second >= whole] == sorted(second for second in came if second >= whole)
    for start in range(whole - SPARSE * BLOCK, whole, BLOCK):
        firsts = sorted(second for second in came if start <= second < start + BLOCK)[:1]
        assert {second for second in have if start <= second < start + BLOCK} - {max(came)} == set(firsts) - {max(came)}


@given(st.integers(1, 2 * ROWS), st.integers(-90, 89), st.integers(-90, 89))
def test_it_reads_like_a_tuple(count: int, start: int, stop: int) -> None:
    _, trail = grown(range(count))
    whole = tuple(trail)
    assert tuple(trail[start:]) == whole[start:]
    assert tuple(trail[:stop]) == whole[:stop]
    assert tuple(trail[start:stop]) == whole[start:stop]
    assert tuple(reversed(trail)) == whole[::-1]
    if -len(whole) <= start < len(whole):
        assert trail[start] == whole[start]


def test_what_is_frozen_stays_and_the_last_value_can_be_held() -> None:
    past, trail = grown(range(40))
    plain, held = trail.frozen(past.frozen()), trail.frozen(past.frozen(), 45.5)
    before = seconds(trail)
    for second in range(40, 140):
        past.append(float(second), [gpu_row(0)])
        trail.take(float(second), gpu_row(0))
    assert seconds(plain) == before
    assert (held[-1].at, held[-2].at) == (45.5, 39.0)
    assert held[-1].value == held[-2].value
    assert len(held) == len(plain) + 1
    assert seconds(trail)[0] > 39


def test_a_process_that_has_another_ones_pid_has_none_of_its_looks() -> None:
    past = pulses()
    for second in range(20):
        past.append(float(second), [pulse(7, threads=1)])
    trail = Trail(past, 7)
    for second in range(20, 23):
        past.append(float(second), [pulse(7, threads=2)])
        trail.take(float(second), pulse(7, threads=2))
    assert [look.at for look in trail] == [20.0, 21.0, 22.0]


@given(
    st.lists(
        st.builds(
            pulse,
            st.just(5),
            wchan=st.text(max_size=20),
            cpu_user=st.floats(0, 1e9),
            voluntary_switches=st.integers(0, 2**63 - 1),
            read_bytes=st.none() | st.integers(0, 2**63 - 1),
            idle_since=st.none() | st.floats(0, 2e9),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_looks_come_back_as_they_were(samples: list[RankPulse]) -> None:
    past = pulses()
    trail = Trail(past, 5)
    for second, sample in enumerate(samples):
        past.append(second / 3, [sample])
        trail.take(second / 3, sample)
    assert list(trail) == [Look(second / 3, sample) for second, sample in enumerate(samples)]


def test_a_count_that_no_kernel_has_is_not_kept_and_costs_its_neighbours_nothing() -> None:
    past = pulses()
    odd, even = Trail(past, 7), Trail(past, 8)
    for at, rss in ((1.0, 1 << 70), (2.0, 1)):
        rows = [pulse(7, rss=rss), pulse(8)]
        past.append(at, rows)
        odd.take(at, rows[0])
        even.take(at, rows[1])
        assert odd[-1].value.rss == rss
    assert [look.at for look in odd] == [2.0]
    assert [look.at for look in even] == [1.0, 2.0]


def test_rows_that_are_nearly_alike_take_a_part_of_what_they_hold() -> None:
    past = pulses()
    row = [pulse(pid, cpu_user=1000.0 + pid, voluntary_switches=10_000 * pid) for pid in range(8)]
    for second in range(BLOCK):
        past.append(float(second), [sample._replace(cpu_user=sample.cpu_user + second) for sample in row])
    [whole] = past._rows
    assert past._packs
    assert max(len(data) for data in past._packs) < AT_ONCE * len(whole) / 2
    assert unpacked(past._packs[-1], whole) != whole


@given(st.binary(max_size=200_000), st.binary(max_size=2000), st.booleans())
def test_what_is_packed_comes_out_as_it_was(data: bytes, by: bytes, alike: bool) -> None:
    whole = by * 40 + data if alike else data
    assert unpacked(packed(whole, by), by) == whole


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=6), st.booleans())
def test_what_was_packed_by_the_first_comes_out_behind_it(parts: list[bytes], alike: bool) -> None:
    first, *others = [parts[0] + part for part in parts] if alike else parts
    data = b"".join((packed(first), *(packed(other, first) for other in others)))
    assert unpacked(data) == b"".join((first, *others))
