"""What is written in the cells of the heat map."""

from __future__ import annotations

from tui.widgets.heat import RANK_METRICS


def test_memory_of_small_ranks_is_not_zero() -> None:
    memory = next(metric for metric in RANK_METRICS if metric.unit == "G")
    assert [memory.text(value) for value in (0.24, 6.0, 9.94, 9.96, 63.7, 5000.0)] == [
        "0.2", "6.0", "9.9", "10", "64", "999",
    ]  # fmt: skip


def test_shares_of_a_core_are_whole() -> None:
    assert {metric.text(7.4) for metric in RANK_METRICS if metric.unit == "%"} == {"7"}
