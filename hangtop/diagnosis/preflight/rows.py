"""A check of preflight as a row: what the nodes answered, what a check says of each, and its two sorts.

A node is checked by itself (:func:`each`), or all nodes must have something alike (:func:`alike`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

from collectors.samples.asked import Observation
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node

T = TypeVar("T")

State = Literal["fail", "warn", "unknown", "ok"]


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

    def all(self, node: str, name: str) -> list[Observation]:
        """Every answer of a node under one name."""
        return [found for found in self.answers.get(node, ()) if found.name == name]

    def answer(self, node: str, name: str, subject: str = "") -> Observation | None:
        """One answer of a node; None when it was not asked or did not answer."""
        return next((found for found in self.all(node, name) if found.subject == subject), None)


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


class NodeAnswer(NamedTuple):
    """What a check found on a node."""

    well: bool | None
    """None: not known."""
    figure: str
    remedy: str = ""
    """Instead of the check's own."""


UNKNOWN = NodeAnswer(None, "the node did not say")
Answers = Iterator[tuple[str, NodeAnswer]]
"""By node; one to which the check does not apply has none."""


@dataclass(frozen=True, slots=True)
class Check:
    """A row of the table: what is checked, and the kind and remedy of a node that is not well."""

    name: str
    kind: str
    remedy: str
    measure: Callable[[Preflight], Answers]
    state: State = "fail"
    """Of a node that is not well."""

    def cells(self, scene: Preflight) -> Iterator[CheckCell]:
        """The answers of all nodes."""
        for node, found in sorted(self.measure(scene)):
            if found.well is False:
                yield CheckCell(self.name, node, self.state, found.figure, self.kind, found.remedy or self.remedy)
            else:
                yield CheckCell(self.name, node, "ok" if found.well else "unknown", found.figure)


def each(measure: Callable[[Preflight, Node], NodeAnswer | None]) -> Callable[[Preflight], Answers]:
    """A check of each node by itself; None where it does not apply."""

    def answers(scene: Preflight) -> Answers:
        found = ((node.name, measure(scene, node)) for node in scene.nodes())
        return ((name, answer) for name, answer in found if answer is not None)

    return answers


def alike(value: Callable[[Preflight, Node], str | None]) -> Callable[[Preflight], Answers]:
    """What all nodes should have alike: a node that differs from most is at fault.

    ``value`` is empty for a node that is known to have none, and None where it is not known.
    """

    def answers(scene: Preflight) -> Answers:
        values = {node.name: value(scene, node) for node in scene.nodes()}
        told = Counter(one for one in values.values() if one is not None)
        usual = told.most_common(1)[0][0] if told else ""
        for name, one in values.items() if any(told) else ():
            if one is None:
                yield name, UNKNOWN
            else:
                well = one == usual
                yield name, NodeAnswer(well, one if well else f"{one or 'none'}, elsewhere {usual or 'none'}")

    return answers


def items(answer: Observation | None, kind: type[T]) -> list[T]:
    """Items of an answer's list; empty when it has none."""
    value = answer.value if answer is not None else None
    return [item for item in value if isinstance(item, kind)] if isinstance(value, list) else []
