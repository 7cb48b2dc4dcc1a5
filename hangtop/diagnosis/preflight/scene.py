"""What preflight's checks look at, what they answer, and the two sorts of checks: of one node, and among nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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


class NodeAnswer(NamedTuple):
    """What a check found on a node."""

    well: bool | None
    """None: not known."""
    figure: str
    remedy: str = ""
    """Instead of the check's own."""
    kind: str = ""
    """The same."""


UNKNOWN = NodeAnswer(None, UNTOLD)


@dataclass(frozen=True, slots=True)
class Check:
    """A check of each node by itself."""

    name: str
    remedy: str
    measure: Callable[[Preflight, Node], NodeAnswer | None]
    """None where the check does not apply."""
    state: State = "fail"
    """Of a node that is not well."""
    kind: str = "preflight_failed"

    def __call__(self, scene: Preflight) -> Iterator[CheckCell]:
        """The answers of all nodes that can be asked."""
        for node in scene.nodes():
            found = self.measure(scene, node)
            if found is not None and found.well is False:
                remedy, kind = found.remedy or self.remedy, found.kind or self.kind
                yield CheckCell(self.name, node.name, self.state, found.figure, kind, remedy)
            elif found is not None:
                yield CheckCell(self.name, node.name, "ok" if found.well else "unknown", found.figure)


@dataclass(frozen=True, slots=True)
class Alike:
    """What all nodes should have alike: a node that differs from most is at fault."""

    name: str
    kind: str
    remedy: str
    value: Callable[[Preflight, Node], str | None]
    """Empty for a node that is known to have none, None where it is not known."""
    source: str = ""
    """The source that would tell; its reason is said where the value is not known."""

    def __call__(self, scene: Preflight) -> Iterator[CheckCell]:
        """Compare all nodes; nothing where none has a value."""
        values = {node.name: self.value(scene, node) for node in scene.nodes()}
        told = Counter(value for value in values.values() if value is not None)
        usual = told.most_common(1)[0][0] if told else ""
        for name, value in values.items():
            state = scene.job.nodes[name].sources.get(self.source)
            if value is None and (any(told) or state is not None):
                yield CheckCell(self.name, name, "unknown", (state.why if state else "") or UNTOLD)
            elif value is not None and value != usual:
                figure = f"{value or 'none'}, elsewhere {usual or 'none'}"
                yield CheckCell(self.name, name, "fail", figure, self.kind, self.remedy)
            elif value:
                yield CheckCell(self.name, name, "ok", value)
