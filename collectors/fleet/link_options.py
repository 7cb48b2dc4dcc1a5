"""What all links of a fleet have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collectors.fleet.sink import Sink


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """What all links of a fleet have in common."""

    sink: Sink
    version: str
    extra: Mapping[str, bytes]
    """Further files of the payload."""
    python: str | None
    """The interpreter to use on every node; None to look for one."""
