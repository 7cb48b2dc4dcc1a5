"""Looks at one thing that moves: the newest as it came, those before it out of its node's last minute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar, overload

from hangtop.diagnosis.job import Look
from hangtop.session.state.past import Past

T = TypeVar("T", bound=NamedTuple)


class Looks(Sequence[Look[T]]):
    """Looks, oldest first; those before the newest are unpacked when asked for. Nothing here changes.

    ``newest`` is the value of the last one that came, None while there is none, and ``at`` its time: both at once.
    """

    __slots__ = ("_held", "_key", "_past", "_since", "at", "newest")

    def __init__(
        self,
        past: Past[T],
        key: object,
        ends: tuple[T | None, float, float | None] = (None, 0.0, None),
        since: float | None = None,
    ) -> None:
        """Take what the node keeps, and of what in it these are.

        ``ends`` are the newest value, when it came, and until when it held; looks from before ``since`` are of another
        thing that had the same key.
        """
        self._past = past
        self._key = key
        self.newest, self.at, self._held = ends
        self._since = since

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Looks | tuple) else NotImplemented

    def __len__(self) -> int:
        return sum(1 for _ in reversed(self))

    def __bool__(self) -> bool:
        return self.newest is not None

    @overload
    def __getitem__(self, index: int) -> Look[T]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Look[T]]: ...

    def __getitem__(self, index: int | slice) -> Look[T] | Sequence[Look[T]]:
        if isinstance(index, int):
            if index == -1 and self.newest is not None:
                return Look(self.at if self._held is None else self._held, self.newest)
            return self._last(-index if index < 0 else None)[index]
        from_end = index.start is not None and index.start < 0 and (index.stop is None or index.stop < 0)
        return self._last(-index.start if from_end else None)[index]

    def __iter__(self) -> Iterator[Look[T]]:
        return iter(self._last(None))

    def __reversed__(self) -> Iterator[Look[T]]:
        newest = self.newest
        if newest is None or self._since is None:
            return
        if self._held is not None:
            yield Look(self._held, newest)
        yield Look(self.at, newest)
        for number, (at, value) in enumerate(self._past.of(self._key)):
            # The newest is the first of them, unless it has not moved for so long that it is not among them.
            if at >= self._since and (number or at != self.at):
                yield Look(at, value)

    def _last(self, count: int | None) -> list[Look[T]]:
        """So many of the newest looks, or all, oldest first."""
        return list(islice(reversed(self), count))[::-1]


class Trail(Looks[T]):
    """Looks that grow at their end; who adds one also adds it to the past of its node."""

    __slots__ = ()

    def take(self, at: float, value: T) -> None:
        """Take the newest look."""
        if self._since is None:
            self._since = at
        self.at, self.newest = at, value

    def frozen(self, past: Past[T], held: float | None = None) -> Looks[T]:
        """The looks of this moment, ``past`` being its node's; with ``held`` the newest once more as of then."""
        ends = (self.newest, self.at, held if self.newest is not None else None)
        return Looks(past, self._key, ends, self._since)
