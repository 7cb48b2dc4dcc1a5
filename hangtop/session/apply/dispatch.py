"""Functions that put samples into the state register here, by the kind of sample that they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from collectors.samples.fabric import PortUse
from collectors.samples.host import Disk, HostFacts, HostSample
from collectors.samples.stream import Fault
from hangtop.diagnosis.node import Node
from hangtop.session.state import Change, ChangeKind, JobState


@dataclass(slots=True)
class SampleContext:
    """Where the samples of one flush belong."""

    job: JobState
    node: Node
    at: float
    """This machine's time of the flush; the times inside its samples are on this machine's clock already."""

    def note(self, text: str, kind: ChangeKind = "other") -> None:
        """Remember a change that people want to see."""
        self.job.changes.append(Change(self.at, self.node.name, text, kind))


S = TypeVar("S")
Apply: TypeAlias = Callable[[SampleContext, S], None]
APPLIERS: dict[type, Apply[Any]] = {}
"""What is done with each kind of sample."""
LATEST: dict[type, str] = {HostFacts: "host", HostSample: "load"}
"""Kinds of which a node has one, and where the newest is kept as it came."""
BY_KEY: dict[type, str] = {Disk: "disks", PortUse: "port_uses", Fault: "faults"}
"""The same of kinds of which a node has several, told apart by their first field."""


def applies(kind: type[S]) -> Callable[[Apply[S]], Apply[S]]:
    """Have a function apply each sample of this kind."""

    def register(function: Apply[S]) -> Apply[S]:
        APPLIERS[kind] = function
        return function

    return register


def _keep_latest(here: SampleContext, sample: HostFacts | HostSample) -> None:
    setattr(here.node, LATEST[type(sample)], sample)


def _keep_by_key(here: SampleContext, sample: Disk | PortUse | Fault) -> None:
    getattr(here.node, BY_KEY[type(sample)])[sample[0]] = sample


APPLIERS.update(dict.fromkeys(LATEST, _keep_latest))
APPLIERS.update(dict.fromkeys(BY_KEY, _keep_by_key))
