"""A finding: one thing that is wrong, with its proof; and the verdict over all of them.

The shape is a public interface (scripts match on the kinds); ``docs/findings.md`` lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "warning", "info"]
Outcome = Literal["hung", "slow", "crashed", "starting", "healthy", "idle", "unknown"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation, verbatim.

    ``source`` names the witness ("py-spy rank 37", "/var/log/x.err:112"), ``at`` is seconds since the epoch on this
    machine's clock (None where the source has no time).
    """

    source: str
    at: float | None
    text: str


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to press, or to type, to go on from a finding."""

    key: str
    command: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    ``ranks`` of a root cause are the culprits alone, not those who wait for them. ``confidence`` is 0 to 1.
    ``gpus`` are ``node:index``, ``ports`` are ``node:device/port``. ``cause`` is the kind of the finding that this one
    is a consequence of; empty for a cause of its own.
    """

    kind: str
    severity: Severity
    confidence: float
    summary: str
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    advice: str = ""
    next: tuple[NextStep, ...] = ()
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A source that could not be read: unknown, never "ok"."""

    source: str
    nodes: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer: outcome, one line, and the findings behind it, root cause first."""

    outcome: Outcome
    summary: str
    findings: tuple[Finding, ...] = ()
    unknown: tuple[Unknown, ...] = ()
