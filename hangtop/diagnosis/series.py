"""The last samples of a changing value, each with its time."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

MOST_KEPT = 64
"""Number of samples that are kept of one thing."""
HELD_S = 0.5
"""Seconds after which an unchanged value is repeated as a new sample."""


class Timed(NamedTuple, Generic[T]):
    """One value and when it was seen."""

    at: float
    value: T


class TimedSeries(list[Timed[T]]):
    """The last samples of one thing, oldest first."""

    __slots__ = ()

    @property
    def newest(self) -> T | None:
        """The newest value; None if there is none."""
        return self[-1].value if self else None

    def take(self, at: float, value: T, most: int = MOST_KEPT) -> None:
        """Append the newest sample and keep the last ``most``."""
        self.append(Timed(at, value))
        if len(self) > most:
            del self[:-most]

    def copied(self, heard: float | None) -> TimedSeries[T]:
        """A copy that repeats the last value at the time its node was last heard: nodes send only changes."""
        copy = TimedSeries(self)
        if copy and heard is not None and heard - copy[-1].at > HELD_S:
            copy.append(Timed(heard, copy[-1].value))
        return copy
