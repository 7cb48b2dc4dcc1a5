"""Figures of the chart are told in the unit that people use for as much as there is."""

from __future__ import annotations

import pytest

from tui.widgets.chart import LABEL
from tui.widgets.figures import FIGURES, Figure

BY_NAME = {figure.name: figure for figure in FIGURES}


@pytest.mark.parametrize(
    ("name", "highest", "title", "top"),
    [
        ("power", 72.0, "GPU W", "80"),
        ("power", 640.0, "GPU W", "800"),
        ("power", 5_240.0, "GPU kW", "6.0"),
        ("power", 329_000.0, "GPU kW", "400"),
        ("power", 10_600_000.0, "GPU MW", "15.0"),
        ("steps", 12.3, "steps/s", "15"),
        ("steps", 0.28, "steps/s", "0.30"),
        ("steps", 1 / 40, "steps/min", "1.50"),
        ("steps", 1 / 900, "steps/h", "4.00"),
        ("network", 1.1 * 2**30, "net/s", "1.5G"),
        ("ports", 2_048 * 16.0 * 2**30, "IB/s", "40.0T"),
        ("gpu_memory", 1_010 * 2**30, "GPU mem", "1.0T"),
        ("moving", 16_384.0, "moving", "20000"),
    ],
)
def test_the_top_of_a_scale_is_a_round_number_of_its_unit(name: str, highest: float, title: str, top: str) -> None:
    figure = BY_NAME[name]
    rounded = figure.rounded_up(highest)
    unit = figure.unit(rounded)
    assert rounded >= highest
    assert (unit.title, unit.text(rounded)) == (title, top)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_name_and_a_number_fit_beside_each_other(figure: Figure) -> None:
    most = {"steps": 1e5, "power": 1e9, "moving": 1e6, "utilisation": 100.0}.get(figure.name, 1e15)
    values = [value for power in range(-40, 160) if (value := 10 ** (power / 10)) <= most]
    for value in values:
        rounded = figure.rounded_up(value)
        unit = figure.unit(rounded)
        assert rounded >= value * (1 - 1e-9)
        assert len(f" {unit.title}{unit.text(rounded)}") < LABEL, rounded
