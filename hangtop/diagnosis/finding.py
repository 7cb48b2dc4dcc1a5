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

``proven``: the culprit was observed directly and an independent source agrees, or the fact was read at a source that
cannot be mistaken (a process state, a driver error). ``likely``: one source, or a second one that is merely consistent.
``possible``: consistent with the observations, as other explanations are.
"""
CONFIDENCE: Mapping[Certainty, float] = MappingProxyType({"proven": 0.9, "likely": 0.7, "possible": 0.5})
"""The number for scripts of each word. Ours: an order, not a measured frequency; see docs/accuracy.md."""
READ_ITSELF = 0.95
"""Weight of a fact that was read at its source and cannot be mistaken: it needs no second source."""
PROVEN, LIKELY = 0.75, 0.65
"""Least weight of a rule's own proof for each of these words."""
NAME_NOBODY = ("job_stalled", "collective_stalled")
"""Kinds that report a stalled job without a certain culprit."""
Outcome = Literal["hung", "crashed", "at_risk", "slow", "waiting", "starting", "healthy", "idle", "unknown"]


class Observer(Enum):
    """What made an observation: two observers that agree are surer than one."""

    STACKS = auto()
    PROCESS = auto()
    """The kernel's view of processes and of the machine: /proc, control groups."""
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
    """Settings, the world size, the length of the watch, a process that sleeps: background, which proves nothing."""


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
    """The log or dump that holds it: lines in two files count as two observers."""


def independent(evidence: Iterable[Evidence]) -> frozenset[tuple[Observer, str]]:
    """The observers of these lines that would see this without each other; CONTEXT observes nothing.

    All stacks are one observer, in however many ranks and by however many rules they are read. Two files are two. The
    kernel's view of a process counts where it names what the process does, and is CONTEXT where the process only sleeps
    (:func:`~hangtop.diagnosis.waits.evidence.process_of`): a stack that waits already says so.
    """
    return frozenset((line.observer, line.file) for line in evidence if line.observer is not Observer.CONTEXT)


@dataclass(frozen=True, slots=True)
class NextStep:
    """The key to press, or the command to type, to follow up on a finding."""

    key: str
    command: str


def next_step(key: str, *words: str) -> NextStep:
    """A hangtop command, quoted for a shell: names of nodes may come from a file or a recording."""
    return NextStep(key, shlex.join(["hangtop", *words]))


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    ``ranks`` of a root cause are the culprits alone, not the ranks that wait for them. ``weight``, 0 to 1, is the
    strength of the rule's own proof; people and scripts read :attr:`certainty`. ``gpus`` are ``node:index``, ``ports``
    are ``node:device/port``. ``cause`` is the kind of the finding that explains this one; empty for a root cause.
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
        """The number for this certainty, 0 to 1."""
        return CONFIDENCE[self.certainty]


def of_ranks(
    kind: str, weight: float, ranks: Iterable[int], nodes: Iterable[str], text: str,
    evidence: Iterable[Evidence | None], advice: str, *steps: NextStep, severity: Severity = "critical",
    unnamed: str = "a rank",
) -> Finding:  # fmt: skip
    """A finding about some ranks; ``text``, in the singular, follows ``rank 3 on node2``, or ``unnamed`` without ranks.

    Example: ``has not launched all_reduce #7`` becomes ``ranks 2-3 on node1 have not launched all_reduce #7``.
    """
    members, on, (verb, _, rest) = tuple(sorted(set(ranks))), tuple(nodes), text.partition(" ")
    return Finding(
        kind, severity, weight,
        f"{ranks_on(members, on) if members else unnamed} {of_several(verb, len(members) or 1)} {rest}",
        ranks=members, nodes=on, evidence=tuple(line for line in evidence if line), advice=advice, next=steps,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unknown:
    """A source that could not be read: unknown, never "ok"."""

    source: str
    nodes: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class WaitBox:
    """Ranks at one point of the program. ``waits_for`` are indices into the list of all boxes."""

    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    doing: str
    """``in all_reduce at train (train.py:31)``; empty if unknown."""
    blamed: bool
    """Whether the verdict's first finding names them as culprits."""
    waits_for: tuple[int, ...] = ()
    operation: str = ""
    """The operation of the first edge, if a source names it: ``all_reduce #41 in dp``."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer: outcome, one line, and the findings behind it, root cause first."""

    outcome: Outcome
    summary: str
    findings: tuple[Finding, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    waits: tuple[WaitBox, ...] = ()
    """Which ranks of a hung job wait for which."""

    @property
    def names_nobody(self) -> bool:
        """Whether the job hangs without a certain culprit: the ranks' flight recorders may name one."""
        return self.outcome == "hung" and bool(self.findings) and self.findings[0].kind in NAME_NOBODY
