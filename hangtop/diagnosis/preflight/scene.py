"""What preflight's checks look at, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from collectors.samples.asked import Observation
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node, Rank

UNTOLD = "the node did not say"
State = Literal["fail", "warn", "unknown", "ok"]


class CheckCell(NamedTuple):
    """The answer of one check of one node."""

    check: str
    node: str
    state: State
    figure: str
    kind: str = ""
    """The finding that an answer which is not well becomes (see ``docs/findings.md``)."""
    remedy: str = ""
    """The command or sentence that mends it."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """The job's picture (with or without ranks), and what every node answered."""

    job: Job
    answers: Mapping[str, Sequence[Observation]] = field(default_factory=dict)
    master: tuple[str, int] = ("", 29500)
    """Address and port at which the ranks meet."""
    master_node: str = ""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Nodes that did not answer the survey, and why."""

    def nodes(self) -> list[Node]:
        """Nodes that answer, by name."""
        return [
            node for _, node in sorted(self.job.nodes.items()) if node.link in ("live", "limited", "stale", "offline")
        ]

    def ranks(self, node: str) -> list[Rank]:
        """Living ranks of a node."""
        return [rank for rank in self.job.ranks_of(node) if rank.gone_at is None]

    def all(self, node: str, name: str) -> list[Observation]:
        """Every answer of a node under one name."""
        return [found for found in self.answers.get(node, ()) if found.name == name]

    def answer(self, node: str, name: str, subject: str = "") -> Observation | None:
        """One answer of a node; None when it was not asked or did not answer."""
        return next((found for found in self.all(node, name) if found.subject == subject), None)

    def numbers(self, node: str, name: str, subject: str = "") -> list[int]:
        """Whole numbers of an answer's list; empty when it has none."""
        found = self.answer(node, name, subject)
        value = found.value if found is not None else None
        return [int(item) for item in value if isinstance(item, (int, float))] if isinstance(value, list) else []


def texts(observation: Observation | None) -> list[str]:
    """Texts of an answer's list; empty when it has none."""
    value = observation.value if observation is not None else None
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
