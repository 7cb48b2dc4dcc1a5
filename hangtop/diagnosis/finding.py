"""A finding: one thing that is wrong, with its proof; and the verdict over all of them.

The shape is a public interface (scripts match on the kinds); ``docs/findings.md`` lists them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Literal

from hangtop.diagnosis.phrasing import of_several, ranks_on

Severity = Literal["critical", "warning", "info"]
Certainty = Literal["proven", "likely", "possible"]
"""How sure a finding is.

``proven``: the culprit was seen at its place, and an independent source says the same, or the thing itself was read
where nothing can be mistaken (a process state, an error of the driver). ``likely``: one source, or two of which one
only fits. ``possible``: it fits what was seen, and other things do, too.
"""
CONFIDENCE: Mapping[Certainty, float] = MappingProxyType({"proven": 0.9, "likely": 0.7, "possible": 0.5})
"""The number that scripts get for each word. Ours: an order, not a measured frequency; see docs/accuracy.md."""
READ_ITSELF = 0.95
"""Weight of what is read at its source and cannot be mistaken: it needs no second source."""
PROVEN, LIKELY = 0.75, 0.65
"""Least weight of a rule's own proof for these words."""
NAME_NOBODY = ("job_stalled", "collective_stalled")
"""Kinds that say that a job stands still, and not for sure whose fault it is."""
Outcome = Literal["hung", "crashed", "at_risk", "slow", "waiting", "starting", "healthy", "idle", "unknown"]


class Observer(Enum):
    """By what something was observed: two observers that say the same are surer than one."""

    STACKS = auto()
    PROCESS = auto()
    """What the kernel of a node tells of processes and machines: /proc, control groups."""
    GPU = auto()
    PORT = auto()
    """An InfiniBand or RoCE port, by its state and counters."""
    NETWORK = auto()
    """TCP, by the kernel's counters, sockets and interfaces."""
    LINK = auto()
    """Our own connection to a node."""
    LOG = auto()
    RECORDER = auto()
    RAS = auto()
    PROBE = auto()
    TRACE = auto()
    INSIDE = auto()
    """``hangtop.inside`` in a rank."""
    CONTEXT = auto()
    """Settings, the number of ranks, how long was watched: it sets the scene and saw nobody do anything."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation, verbatim.

    ``source`` names the source for people ("py-spy rank 37", "/var/log/x.err:112"), ``at`` is seconds since the epoch
    on this machine's clock (None where the source has no time).
    """

    observer: Observer
    source: str
    at: float | None
    text: str
    file: str = ""
    """The log or dump that it stands in: what two ranks write is from two observers."""


def independent(evidence: Iterable[Evidence]) -> frozenset[tuple[Observer, str]]:
    """The observers of these lines that are independent of each other; those that only set the scene saw nothing."""
    return frozenset((line.observer, line.file) for line in evidence if line.observer is not Observer.CONTEXT)


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to press, or to type, to go on from a finding."""

    key: str
    command: str


def next_step(key: str, *words: str) -> NextStep:
    """A command of hangtop's own as a shell takes it: names of nodes may come from a file or a recording."""
    return NextStep(key, shlex.join(["hangtop", *words]))


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    ``ranks`` of a root cause are the culprits alone, not those who wait for them. ``weight``, 0 to 1, is how much its
    rule's own proof weighs beside that of other findings; what people and scripts read is :attr:`certainty`.
    ``gpus`` are ``node:index``, ``ports`` are ``node:device/port``. ``cause`` is the kind of the finding that this one
    is a consequence of; empty for a cause of its own.
    """

    kind: str
    severity: Severity
    weight: float
    summary: str
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    advice: str = ""
    next: tuple[NextStep, ...] = ()
    cause: str = ""

    @property
    def certainty(self) -> Certainty:
        """``proven``, ``likely`` or ``possible``."""
        if self.weight >= READ_ITSELF or (self.weight >= PROVEN and len(independent(self.evidence)) > 1):
            return "proven"
        return "likely" if self.weight >= LIKELY else "possible"

    @property
    def confidence(self) -> float:
        """The number that stands for this certainty, 0 to 1."""
        return CONFIDENCE[self.certainty]


def of_ranks(
    kind: str, weight: float, ranks: Iterable[int], nodes: Iterable[str], text: str,
    evidence: Iterable[Evidence | None], advice: str, *steps: NextStep,
) -> Finding:  # fmt: skip
    """A critical finding about some ranks; ``text`` goes on after ``rank 3 on node2``, said as of one rank.

    Example: ``has not launched all_reduce #7`` becomes ``ranks 2-3 on node1 have not launched all_reduce #7``.
    """
    every, on, (verb, _, rest) = tuple(sorted(set(ranks))), tuple(nodes), text.partition(" ")
    return Finding(
        kind, "critical", weight, f"{ranks_on(every, on)} {of_several(verb, len(every))} {rest}",
        ranks=every, nodes=on, evidence=tuple(line for line in evidence if line), advice=advice, next=steps,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unknown:
    """A source that could not be read: unknown, never "ok"."""

    source: str
    nodes: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class WaitBox:
    """Ranks that are at one point. ``waits_for`` are places of other boxes among all of them."""

    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    doing: str
    """``in all_reduce at train (train.py:31)``; empty where nothing is known."""
    blamed: bool
    """By the verdict's first finding."""
    waits_for: tuple[int, ...] = ()
    operation: str = ""
    """What the first edge stands for, where a source says it: ``all_reduce #41 in dp``."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer: outcome, one line, and the findings behind it, root cause first."""

    outcome: Outcome
    summary: str
    findings: tuple[Finding, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    waits: tuple[WaitBox, ...] = ()
    """Who waits for whom, of a job that hangs."""

    @property
    def names_nobody(self) -> bool:
        """A hang in which no rank is surely the odd one: what the ranks' own recorders hold may name one."""
        return self.outcome == "hung" and bool(self.findings) and self.findings[0].kind in NAME_NOBODY
