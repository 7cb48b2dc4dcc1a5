"""Goes along with programs that may run a rank's own interpreter: the source of ``collectors.node.stacks.as_rank``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import collectors
from collectors.node.stacks.own_python import PROGRAM


@cache
def as_rank() -> bytes:
    """Its source."""
    return (Path(collectors.__file__).parent / "node" / "stacks" / "as_rank.py").read_bytes()


def sent_along() -> dict[str, bytes]:
    """The files that :func:`collectors.fleet.payload.pack` must send beside such a program."""
    return {PROGRAM: as_rank()}
