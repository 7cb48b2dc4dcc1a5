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


def _short(value: float) -> str:
    """Two digits behind the point below ten, one below a hundred."""
    return (
        f"{value:.0f}"
        if value >= 99.95 or value == int(value)
        else f"{value:.1f}"
        if value >= 9.995
        else f"{value:.2f}"
    )


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


def _one(title: str, scale: Callable[[float], str] = _short) -> tuple[Unit, ...]:
    return (Unit(0.0, title, 1.0, scale),)


_STEPS = tuple(
    Unit(least, f"steps/{name}", 1 / seconds, _short)
    for least, name, seconds in ((0.0, "h", 3600), (0.1 / 60, "min", 60), (0.1, "s", 1))
)
_POWER = Unit(0.0, "GPU W", 1.0, _short), Unit(1e3, "GPU kW", 1e3, _short), Unit(1e6, "GPU MW", 1e6, _short)
FIGURES = (
    Figure("moving", _one("moving"), "alive"),
    Figure("steps", _STEPS),
    Figure("power", _POWER),
    Figure("ports", _one("IB/s", size), always=False, binary=True),
    Figure("network", _one("net/s", size), binary=True),
    Figure("retransmitted", _one("resent/s", count), always=False),
    Figure("utilisation", _one("GPU %")),
    Figure("gpu_memory", _one("GPU mem", size), binary=True),
    Figure("memory", _one("memory", size), binary=True),
)
"""The most telling first."""
