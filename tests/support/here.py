"""This machine as a node, as hangtop reaches it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

from collectors.fleet.targets.chosen import Target
from collectors.fleet.via.piped import Piped
from collectors.fleet.via.way import HERE, Way


def here(name: str = "here", *, way: Way = HERE, python: str = sys.executable) -> Piped:
    """A connected node that is this machine; the way to it may begin with other words."""
    made = Piped(Target(name), way, asyncio.Semaphore(8))
    made.python = python
    with suppress(StopIteration):
        made.connect().send(None)  # it waits for nothing
    return made
