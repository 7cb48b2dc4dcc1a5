"""Numbers as they are shown: unknown is never zero."""

from __future__ import annotations

import pytest

from tui.looks.format import UNKNOWN, age, count, number, percent, plural, rate, size, spark, watts


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, UNKNOWN),
        (-3, "0s"),
        (0.4, "0s"),
        (59.9, "59s"),
        (60, "1m00s"),
        (130, "2m10s"),
        (3900, "1h05m"),
        (273_600, "3d04h"),
    ],
)
def test_ages(seconds: float | None, shown: str) -> None:
    assert age(seconds) == shown


@pytest.mark.parametrize(
    ("number_of_bytes", "shown"),
    [
        (None, UNKNOWN),
        (0, "0"),
        (512, "512"),
        (1536, "1.5K"),
        (80 * 2**30, "80.0G"),
        (1023 * 2**30, "1023G"),
        (2**80, "1048576E"),
    ],
)
def test_sizes(number_of_bytes: float | None, shown: str) -> None:
    assert size(number_of_bytes) == shown


def test_other_forms() -> None:
    assert rate(2**20) == "1.0M/s"
    assert count(12_300) == "12.3k"
    assert count(None) == rate(None) == number(None) == percent(None) == UNKNOWN
    assert [plural(n, "rank") for n in (0, 1, 2)] == ["no rank", "1 rank", "2 ranks"]


def test_a_history_is_drawn_on_a_fixed_scale() -> None:
    assert spark([0.0] * 3, 100, 3) == "▁▁▁"
    assert spark([100.0] * 3, 100, 3) == "▇▇▇"
    assert spark([None, 50.0], 100, 4) == "   ▄"
    assert spark([250.0, -1.0], 100, 2) == "▇▁"


@pytest.mark.parametrize(
    ("power", "shown"),
    [
        (0.0, "0 W"),
        (639.6, "640 W"),
        (999.4, "999 W"),
        (999.6, "1.00 kW"),
        (9_996, "10.0 kW"),
        (81_900, "81.9 kW"),
        (655_960, "656 kW"),
        (999_600, "1.00 MW"),
        (10_550_800, "10.6 MW"),
        (2_000_000_000, "2000 MW"),
    ],
)
def test_power(power: float, shown: str) -> None:
    assert watts(power) == shown
