"""Where work that takes long lets others go first: between its steps, if whoever runs it says so for its thread.

A verdict over 16,384 ranks is a second of work in a thread of its own. Python lets threads take turns, but each turn
that this one has is one that the screen waits for; while somebody types it is better that it rests. The work itself
knows nothing of the screen: it says where it may be held, and gives the same whether it was or not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

STRIDE = 64
"""Entries of a list that is gone through between two breaths: a tenth of a millisecond, or some."""


class _Thread(threading.local):
    pause: Callable[[], None] | None = None


_thread = _Thread()


def give_way() -> None:
    """Let others go first, if somebody wants to."""
    pause = _thread.pause
    if pause is not None:
        pause()


@contextmanager
def giving_way(pause: Callable[[], None]) -> Iterator[None]:
    """Call ``pause`` wherever work of this thread gives way."""
    before, _thread.pause = _thread.pause, pause
    try:
        yield
    finally:
        _thread.pause = before


def paced(items: Iterable[T]) -> Iterator[T]:
    """The same, one after the other; whoever takes them gives way now and then."""
    for place, one in enumerate(items):
        if not place % STRIDE:
            give_way()
        yield one


class Paced(list[T]):
    """A list of thousands: whoever goes through it gives way now and then."""

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        return paced(super().__iter__())
