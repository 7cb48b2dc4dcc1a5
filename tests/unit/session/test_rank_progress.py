"""One rank from look to look: whatever a node sends, nothing is raised, and nothing moves before its time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.samples.ranks import RankPulse
from collectors.samples.stacks import Frame
from hangtop.session.motion.rank_progress import begun
from hangtop.session.state.job_state import RankState
from hangtop.session.state.time_series import TimeSeries
from hangtop.session.state.time_series import pulses as past
from tests.support.made import process, pulse, stack

counts = st.integers(0, 2**64 - 1)
seconds = st.floats(0, 1e9)
any_pulse: st.SearchStrategy[RankPulse] = st.builds(
    lambda **fields: pulse(1000, **fields),
    state=st.sampled_from("RSDTZ"),
    cpu_user=seconds,
    cpu_system=seconds,
    voluntary_switches=counts,
    involuntary_switches=counts,
    read_bytes=st.none() | counts,
    written_bytes=st.none() | counts,
    helpers_cpu=seconds,
)


@given(
    st.lists(st.tuples(any_pulse, st.floats(0.001, 1e6), st.booleans(), st.booleans()), min_size=1, max_size=12),
    st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1),
)
def test_whatever_a_node_says_a_rank_is_followed(
    looks: list[tuple[RankPulse, float, bool, bool]], stacks: list[list[str]]
) -> None:
    rank = RankState("node1", process(0), TimeSeries(past(), 1000))
    at = 1e9
    rank.looks.take(at, looks[0][0])
    known = begun(rank, at, None)
    for place, (sample, span, exchanged, own) in enumerate(looks):
        at += span
        rank.looks.take(at, sample)
        known.follow(at, rank, None, exchanged=at - span / 2 if exchanged else None, own=own)
        known.saw(stack(1000, *stacks[place % len(stacks)], at=at))
        assert known.moved_at <= at
        assert 0 <= known.moves <= 2 * (place + 1)


def test_a_look_without_its_outer_frames_is_no_motion() -> None:
    rank = RankState("node1", process(0), TimeSeries(past(), 1000))
    rank.looks.take(1.0, pulse(1000))
    known = begun(rank, 1.0, None)
    known.saw(stack(1000, "wait", "<module>", at=2.0))
    known.saw(stack(1000, "wait", at=3.0))
    assert known.moves == 0
    known.saw(stack(1000, "evaluate", "<module>", at=4.0))
    assert known.moves == 1


@pytest.mark.parametrize(
    ("cores", "moves"),
    [((0.0, 0.0, 0.2, 0.2, 0.2, 0.4, 0.4), 0), ((0.0, 0.0, 0.2, 0.9), 1), ((0.0, 0.0, 0.9), 1), ((0.9, 0.2, 0.0), 1)],
    ids=["spins, and is given more", "begins within a look", "begins", "ends within a look"],
)
def test_who_spins_does_not_begin_to_compute_when_it_is_given_more_of_a_cpu(
    cores: tuple[float, ...], moves: int
) -> None:
    """A hang became healthy for some seconds when other programs of its node ended."""
    rank = RankState("node1", process(0), TimeSeries(past(), 1000))
    rank.looks.take(1.0, pulse(1000, state="R"))
    known = begun(rank, 1.0, None)
    used = 0.0
    for at, share in enumerate(cores, 2):
        used += share
        rank.looks.take(float(at), pulse(1000, state="R" if share else "S", cpu_user=used))
        known.follow(float(at), rank, None, exchanged=None, own=False)
    assert known.moves == moves


@pytest.mark.parametrize(
    ("stack_of_main", "written", "moves"),
    [
        (("select selectors.py", "BaseEventLoop._run_once asyncio/base_events.py", "<module>"), 0, False),
        (("select selectors.py", "BaseEventLoop._run_once asyncio/base_events.py", "<module>"), 20_000, True),
        (("step train.py", "<module>"), 0, True),
    ],
    ids=["an event loop", "and what gloo sends", "a loop of training"],
)
def test_timers_of_an_event_loop_are_no_motion(stack_of_main: tuple[str, ...], written: int, moves: bool) -> None:
    """A worker of Dask's, whose loop woke 94 times a second for 0.06 of a core, hung and was called healthy."""
    rank = RankState("node1", process(0), TimeSeries(past(), 1000))
    rank.looks.take(1.0, pulse(1000))
    known = begun(rank, 1.0, None)
    frames = [Frame(name, f"/python3.11/{file or 'run.py'}", 1, native=False)
              for name, _, file in (one.partition(" ") for one in stack_of_main)]  # fmt: skip
    dump = stack(1000, "a", at=1.5)
    known.saw(dump._replace(threads=[dump.threads[0]._replace(frames=frames)]))
    for second in range(2, 12):
        woken = 94 * (second - 1) + 7 * (second % 3)
        sample = pulse(1000, voluntary_switches=woken, cpu_user=0.06 * (second - 1), written_bytes=written * second)
        rank.looks.take(float(second), sample)
        known.follow(float(second), rank, None, exchanged=None, own=False)
    assert (known.moved_at > 9.0) is moves
