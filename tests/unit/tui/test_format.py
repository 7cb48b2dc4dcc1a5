"""Numbers as they are shown: unknown is never zero."""

from __future__ import annotations

import pytest

from tui.looks.format import UNKNOWN, age, size, spark


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


def test_a_history_is_drawn_on_a_fixed_scale() -> None:
    assert spark([0.0] * 3, 100, 3) == "▁▁▁"
    assert spark([100.0] * 3, 100, 3) == "▇▇▇"
    assert spark([None, 50.0], 100, 4) == "   ▄"
    assert spark([250.0, -1.0], 100, 2) == "▇▁"
