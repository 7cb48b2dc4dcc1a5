"""What the state implies: rates of values that are only sent when they change, and what counts as stale."""

from __future__ import annotations

from collectors.samples.fabric import PortFacts
from hangtop.diagnosis.job import Look
from hangtop.session.state.job_state import NodeState, PortState
from tui.measure import grown_errors, growth, history, is_stale, throttling


def looks(*pairs: tuple[float, float]) -> list[Look[float]]:
    return [Look(at, value) for at, value in pairs]


def same(value: float) -> float:
    return value


def test_growth_is_that_of_the_last_tick() -> None:
    assert growth(looks((0, 0), (1, 5), (2, 7)), same, 2, 1) == 2


def test_a_counter_that_is_no_longer_sent_stands_still() -> None:
    assert growth(looks((0, 0), (1, 5)), same, 30, 1) == 0


def test_a_counter_that_moves_after_a_rest_moved_within_the_last_tick() -> None:
    assert growth(looks((0, 0), (30, 6)), same, 30, 1) == 4


def test_growth_of_one_look_is_unknown_until_the_node_has_ticked_on() -> None:
    assert growth(looks((0, 0)), same, 1, 1) is None
    assert growth(looks((0, 0)), same, 9, 1) == 0
    assert growth([], same, 9, 1) is None


def test_history_holds_values_between_looks() -> None:
    assert history(looks((0, 1), (3, 2)), same, end=5, step=1, length=8) == [None, None, 1, 1, 1, 2, 2, 2]


def test_a_node_is_stale_when_its_link_or_its_ticks_are_gone() -> None:
    node = NodeState("a", link="live", seen_at=100.0)
    assert not is_stale(node, 103.0, 1.0)
    assert is_stale(node, 110.0, 1.0)
    node.link = "lost"
    assert is_stale(node, 100.0, 1.0)
    node.link = "offline"
    assert not is_stale(node, 10_000.0, 1.0)


def test_pressure_is_no_error() -> None:
    facts = PortFacts(
        "mlx5_0",
        1,
        "InfiniBand",
        "ACTIVE",
        "LinkUp",
        400.0,
        1,
    )
    names = ("port_xmit_wait", "symbol_error", "link_downed", "port_rcv_errors")
    port = PortState(
        facts, counters=dict(zip(names, (900, 7, 9, 1), strict=True)), first=dict(zip(names, (0, 5, 1, 1), strict=True))
    )
    assert grown_errors(port) == {"link_downed": 8, "symbol_error": 2}


def test_throttling_tells_trouble_from_a_power_cap() -> None:
    assert throttling(None) == ("–", False)
    assert throttling(0) == ("", False)
    assert throttling(0x4) == ("power cap", False)
    assert throttling(0x44) == ("HW thermal, power cap", True)
