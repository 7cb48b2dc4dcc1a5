"""How long at least half of the ranks have been still, spares left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hangtop.session.motion.stills import SPARES_AFTER, Stills
from hangtop.session.motion.tracks import WITNESSED, MotionTrack
from tests.support.made import pulse

NOW = 1000.0


def rank(*, moves: int, looks: int = 9, first_at: float = 0.0) -> MotionTrack:
    return MotionTrack(pulse(1), first_at, NOW, 0.0, 0.0, None, 0, moves=moves, looks=looks)


def told(*ranks: tuple[float, MotionTrack]) -> tuple[float, bool] | None:
    stills = Stills()
    for still, known in ranks:
        stills.add(still, known)
    assert len(stills) == len(ranks)
    return stills.half(NOW)


def test_without_a_rank_nothing_is_told() -> None:
    assert told() is None


def test_half_of_the_ranks_count() -> None:
    moving = rank(moves=5)
    assert told((1.0, moving), (9.0, moving), (5.0, moving)) == (5.0, False)
    assert told((1.0, moving), (9.0, moving)) == (9.0, False)
    assert told((-2.0, moving)) == (0.0, False)


def test_a_spare_is_left_out_once_all_are_known_for_a_while() -> None:
    spare, moving = rank(moves=0), rank(moves=5)
    ranks = [(1.0, moving), (2.0, moving), (3.0, moving), (700.0, spare)]
    assert told(*ranks) == (2.0, False)
    fresh = rank(moves=5, first_at=NOW - SPARES_AFTER / 2)
    assert told(*ranks, (4.0, fresh)) == (3.0, False)
    assert told((1.0, moving), (700.0, spare)) == (700.0, True)


def test_who_never_moved_is_known_to_be_quiet_after_some_looks() -> None:
    quiet, unsure = rank(moves=0, looks=WITNESSED), rank(moves=0, looks=WITNESSED - 1)
    assert told((7.0, quiet), (7.0, quiet)) == (7.0, True)
    assert told((7.0, unsure), (7.0, unsure)) == (7.0, False)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(2, 9)), min_size=1, max_size=40))
def test_so_many_are_still_for_as_long(ranks: list[tuple[float, int]]) -> None:
    half = told(*((still, rank(moves=moves)) for still, moves in ranks))
    assert half is not None
    assert 2 * sum(still >= half[0] for still, _ in ranks) >= len(ranks)
    assert 2 * sum(still > half[0] for still, _ in ranks) < len(ranks) + 1
