"""What is done with each kind of sample: kept as it came, by the tables here, or put there by a function of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from collectors.samples.fabric import PortUse
from collectors.samples.gpus import FabricService
from collectors.samples.host import Disk, HostFacts, HostSample
from collectors.samples.stream import Fault
from hangtop.diagnosis.node import Node, Rank
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

    def rank(self, pid: int | None) -> Rank | None:
        """The rank of a process on this node."""
        return None if pid is None else self.node.ranks.get(pid)


S = TypeVar("S")
Apply: TypeAlias = Callable[[SampleContext, S], None]
APPLIERS: dict[type, Apply[Any]] = {}
LATEST: dict[type, str] = {HostFacts: "host", HostSample: "load"}
"""Kinds of which a node has one, and where the newest is kept as it came."""
BY_KEY: dict[type, str] = {Disk: "disks", PortUse: "port_uses", Fault: "faults", FabricService: "fabric_services"}
"""The same of kinds of which a node has several, told apart by their first field."""


def applies(kind: type[S]) -> Callable[[Apply[S]], Apply[S]]:
    """Have a function apply each sample of this kind."""

    def register(function: Apply[S]) -> Apply[S]:
        APPLIERS[kind] = function
        return function

    return register


def _keep_latest(here: SampleContext, sample: object) -> None:
    setattr(here.node, LATEST[type(sample)], sample)


def _keep_by_key(here: SampleContext, sample: Disk | PortUse | Fault | FabricService) -> None:
    getattr(here.node, BY_KEY[type(sample)])[sample[0]] = sample


APPLIERS.update(dict.fromkeys(LATEST, _keep_latest))
APPLIERS.update(dict.fromkeys(BY_KEY, _keep_by_key))
