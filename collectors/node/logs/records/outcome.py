"""What records of several lines take and say."""

from __future__ import annotations

from typing import List, NamedTuple, Protocol, Tuple

from collectors.node.logs.lines.line import Line
from collectors.node.logs.said import Said


class Outcome(NamedTuple):
    """What became of a block."""

    said: List[Said]
    text: str
    message: str
    """Text in which other families may find more (an exception's message)."""
    family: str = ""
    """The family that has read the message already."""
    rest: Tuple[Line, ...] = ()
    """Lines that it took, but that were not its own."""


class OpenBlock(Protocol):
    """Takes lines of one stream until it is over."""

    over: bool

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the block."""

    def end(self) -> Outcome:
        """What the block says."""
