"""Full collections wait until nobody is there."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from tui.running import garbage
from tui.running.garbage import Garbage


def test_no_full_collection_by_itself_and_everything_as_before_at_the_end() -> None:
    before = gc.get_threshold()
    keeper = Garbage()
    keeper.start()
    assert gc.get_threshold()[2] == garbage.NEVER
    keeper.stop()
    assert gc.get_threshold() == before


def test_it_collects_when_nobody_is_there_and_not_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("tui.running.garbage.time.monotonic", lambda: now)
    keeper = Garbage()
    now += garbage.APART - 1
    assert not keeper.rest()
    now += 2
    keeper.pressed()
    assert not keeper.rest()
    now += garbage.REST
    assert keeper.rest()
    assert not keeper.rest()
    keeper.stop()


def test_young_cycles_go_at_the_turn_after_a_key_and_who_survives_is_put_out_of_sight() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.me = self

    keeper = Garbage()
    keeper.start()
    try:
        keeper.turn()
        keeper.pressed()
        seen = weakref.ref(Cycle())
        kept = Cycle()
        assert seen() is not None
        keeper.turn()
        assert seen() is None
        assert not any(kept is one for one in gc.get_objects())
    finally:
        keeper.stop()
    assert any(kept is one for one in gc.get_objects())


def test_no_more_are_looked_at_than_a_paint_may_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.me = self

    monkeypatch.setattr("tui.running.garbage.MANY", 50)
    keeper = Garbage()
    keeper.start()
    try:
        keeper.turn()
        keeper.pressed()
        crowd: list[list[int]] = [[] for _ in range(5000)]  # far more than other threads may free meanwhile
        seen = weakref.ref(Cycle())
        keeper.turn()
        assert seen() is not None
        keeper.pressed()
        keeper.turn()
        assert seen() is not None  # out of sight until nobody is there
        assert len(crowd) == 5000
    finally:
        keeper.stop()
    gc.collect()
    assert seen() is None


def test_the_young_are_looked_at_often_only_while_there_is_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    found, looks, keeper = 0, list[int](), Garbage()

    def collect(generation: int) -> int:
        looks.append(generation)
        return found

    def turns(count: int) -> list[int]:
        """Which of the next turns look."""
        looked = []
        for number in range(count):
            looks.clear()
            keeper.turn()
            looked += [number] * len(looks)
        return looked

    monkeypatch.setattr("tui.running.garbage.gc.collect", collect)
    try:
        assert turns(100) == [0, 2, 6, 14, 30, 50, 70, 90]
        found = garbage.FEW
        assert turns(15) == [10, 11, 12, 13, 14]
    finally:
        keeper.stop()


def test_turns_come_seldom_only_where_little_is_made_and_nothing_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found, made, keeper = 0, 100, Garbage()
    monkeypatch.setattr("tui.running.garbage.gc.collect", lambda _generation: found)
    monkeypatch.setattr("tui.running.garbage.gc.get_count", lambda: (made, 0, 0))
    try:
        pauses = [keeper.turn() for _ in range(40)]
        assert pauses[0] == garbage.TURN
        assert pauses[-1] == garbage.SELDOM
        assert sorted(pauses) == pauses, "once nothing is found it stays so"
        made = garbage.LITTLE + 1
        assert keeper.turn() == garbage.TURN
        made = 100
        assert keeper.turn() == garbage.SELDOM
        keeper.pressed()
        assert keeper.turn() == garbage.TURN
    finally:
        keeper.stop()


async def test_it_takes_turns_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.running.garbage.TURN", 0.001)
    frozen = asyncio.Event()
    turns = 0

    def freeze() -> None:
        nonlocal turns
        turns += 1
        if turns == 3:
            frozen.set()

    monkeypatch.setattr("tui.running.garbage.gc.freeze", freeze)
    keeper = Garbage()
    keeper.start()
    keeper.take_turns()
    await asyncio.wait_for(frozen.wait(), 30)
    keeper.stop()
    before = turns
    await asyncio.sleep(0.05)
    assert turns == before
