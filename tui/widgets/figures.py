"""Figures of a job that the chart shows, and the units in which people tell them: kilowatts become megawatts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tui.looks.format import count, size
from tui.looks.plot import rounded_up


class Unit(NamedTuple):
    """In which a figure is told where the top of its scale is ``least`` or more."""

    least: float
    title: str
    whole: float
    """What one of it is."""
    scale: Callable[[float], str]
    """A number of it for people, in few cells."""

    def text(self, value: float) -> str:
        """A value of the figure."""
        return self.scale(value / self.whole)


def _plain(value: float) -> str:
    return f"{value:.0f}"


def _tenths(value: float) -> str:
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def _hundredths(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.0f}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the chart."""

    name: str
    units: tuple[Unit, ...]
    """The smallest first."""
    of: str = ""
    """The figure whose newest value is the top of the scale."""
    always: bool = True
    """Shown also where it has been zero all the time."""
    binary: bool = False
    """Bytes: its scale ends at whole ones of their prefixes."""

    def rounded_up(self, highest: float) -> float:
        """Top of the scale of a chart that goes up to there."""
        if not self.binary:
            whole = self.unit(highest).whole
            return whole * rounded_up(highest / whole)
        prefix = 1
        while highest >= 1024 * prefix:
            prefix *= 1024
        return prefix * min(rounded_up(highest / prefix), 1024)

    def unit(self, top: float) -> Unit:
        """In what all of a chart up to ``top`` is told."""
        return next((unit for unit in reversed(self.units) if top >= unit.least), self.units[0])


def _one(title: str, scale: Callable[[float], str]) -> tuple[Unit, ...]:
    return (Unit(0.0, title, 1.0, scale),)


FIGURES = (
    Figure("moving", _one("moving", _plain), "alive"),
    Figure(
        "steps",
        (
            Unit(0.0, "steps/h", 1 / 3600, _hundredths),
            Unit(0.1 / 60, "steps/min", 1 / 60, _hundredths),
            Unit(0.1, "steps/s", 1.0, _hundredths),
        ),
    ),
    Figure(
        "power",
        (
            Unit(0.0, "GPU W", 1.0, _plain),
            Unit(1e3, "GPU kW", 1e3, _tenths),
            Unit(1e6, "GPU MW", 1e6, _tenths),
        ),
    ),
    Figure("ports", _one("IB/s", size), always=False, binary=True),
    Figure("network", _one("net/s", size), binary=True),
    Figure("retransmitted", _one("resent/s", count), always=False),
    Figure("utilisation", _one("GPU %", _plain)),
    Figure("gpu_memory", _one("GPU mem", size), binary=True),
    Figure("memory", _one("memory", size), binary=True),
)
"""The most telling first."""
