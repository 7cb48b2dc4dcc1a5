"""What the state implies: rates of values that are only sent when they change, and what counts as stale."""

from __future__ import annotations

from hangtop.diagnosis.job import Look
from hangtop.session.state.job_state import NodeState
from tui.measure import growth, is_stale, throttling


def looks(*pairs: tuple[float, float]) -> list[Look[float]]:
    return [Look(at, value) for at, value in pairs]


def same(value: float) -> float:
    return value


def test_a_counter_that_moves_after_a_rest_moved_within_the_last_tick() -> None:
    assert growth(looks((0, 0), (30, 6)), same, 30, 1) == 4


def test_a_node_is_stale_when_its_link_or_its_ticks_are_gone() -> None:
    node = NodeState("a", link="live", seen_at=100.0)
    assert not is_stale(node, 103.0, 1.0)
    assert is_stale(node, 110.0, 1.0)
    node.link = "lost"
    assert is_stale(node, 100.0, 1.0)
    node.link = "offline"
    assert not is_stale(node, 10_000.0, 1.0)


def test_throttling_tells_trouble_from_a_power_cap() -> None:
    assert throttling(None) == ("–", False)
    assert throttling(0) == ("", False)
    assert throttling(0x4) == ("power cap", False)
    assert throttling(0x44) == ("HW thermal, power cap", True)
