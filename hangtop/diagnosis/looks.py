"""The last looks at what moves: values, each with when it was seen."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

MOST_LOOKS = 64
"""Looks at one thing that are kept."""
HELD_S = 0.5
"""Seconds after which an unchanged value is worth a second look of the same."""


class Look(NamedTuple, Generic[T]):
    """One value and when it was seen."""

    at: float
    value: T


class Looks(list[Look[T]]):
    """The last looks at one thing, oldest first."""

    __slots__ = ()

    @property
    def newest(self) -> T | None:
        """The value that came last; None while there is none."""
        return self[-1].value if self else None

    def take(self, at: float, value: T, most: int = MOST_LOOKS) -> None:
        """Add the newest look; of those before it so many stay that ``most`` are kept."""
        self.append(Look(at, value))
        if len(self) > most:
            del self[:-most]

    def copied(self, heard: float | None) -> Looks[T]:
        """The looks of this moment, and the last value once more as of when its node was heard: nodes send changes."""
        found = Looks(self)
        if found and heard is not None and heard - found[-1].at > HELD_S:
            found.append(Look(heard, found[-1].value))
        return found
