"""What the appliers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hangtop.session.state import Change, JobState, NodeState


@dataclass(slots=True)
class Here:
    """Where a sample belongs."""

    job: JobState
    node: NodeState
    at: float
    """This machine's time of the sample; the times inside it are on this machine's clock already."""

    def note(self, text: str) -> None:
        """Remember a change that people want to see."""
        self.job.changes.append(Change(self.at, self.node.name, text))


Applier = Callable[[Here, Any], None]
"""Applies one sample of the kind that it is registered for."""
