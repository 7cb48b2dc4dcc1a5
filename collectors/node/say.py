"""Saying something on standard output: whole lines, in one go where that is possible."""

from __future__ import annotations

import os
from typing import Iterable, NamedTuple

from collectors.node import wire


def say(sample: NamedTuple) -> None:
    """Print one line."""
    say_all([sample])


def say_all(samples: Iterable[NamedTuple]) -> None:
    """Print several lines at once."""
    view = memoryview(b"".join(wire.encode(sample) for sample in samples))
    while view:
        view = view[os.write(1, view) :]
