"""What can be done to nodes or job: in one line for a person, exactly, and the work itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from tui.widgets.lines import Content

Say = Callable[[str], None]
"""Takes a line of progress."""


class Answer(NamedTuple):
    """What came of it, to be read and kept."""

    title: str
    content: Content


Work = Callable[[Say], Awaitable[Answer | None]]
"""Does it; cancelled, it cleans up on the nodes and may still answer. None where the answer is no text."""


@dataclass(frozen=True, slots=True)
class Order:
    """Shown before a yes is asked for, then run."""

    title: str
    brief: str
    """Where, what, how long, what it loads: ``2 nodes, all_reduce to 512 MiB, about 10 s, nccl, loads the network``."""
    command: str
    """The exact commands, several by line breaks; empty where nothing runs elsewhere: then nothing is asked."""
    work: Work
    why: str = ""
    """Cost and risk."""
    quiet: bool = False
    """It takes no time, or shows its answer elsewhere: no progress is shown."""
    stop: Callable[[], object] | None = None
    """Ends it early with an answer, where that is another way than to cancel it."""


class Refused(Exception):
    """It cannot be done; the text says why."""
