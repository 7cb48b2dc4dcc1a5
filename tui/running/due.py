"""When a drawing that is due is made: a little later while what a key changed is on its way to the screen.

A drawing of thousands of nodes takes as long as a key may from its press to its paint.
"""

from __future__ import annotations

from collections.abc import Callable

from hangtop.session.aside import REST, aside

LATER = REST / 2
"""Seconds by which it is put off,"""
OFTEN = 5
"""and how often at the most: a key that is held down must not keep the screen from telling what happens."""


class Due:
    """To be called whenever a drawing is due."""

    def __init__(self, draw: Callable[[], None], later: Callable[[float, Callable[[], None]], object]) -> None:
        self._draw = draw
        self._later = later
        self._put_off = 0

    def __call__(self) -> None:
        """Draw, now or soon."""
        if aside.held() and self._put_off < OFTEN:
            self._put_off += 1
            self._later(LATER, self)
        else:
            self._put_off = 0
            self._draw()
