"""What a session is asked to do, as command line or demo say it; and commands that say the same."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from hangtop.diagnosis.finding import NextStep, Verdict

REACHING = frozenset(("stacks", "probe", "repair", "flame", "triage", "check", "preflight"))
"""Commands that connect to nodes and so take the options of the connection."""


LARGE = 512
"""Nodes of which this machine reads a sample of each every second in a third of a core."""


def usual_interval(nodes: int) -> float:
    """Seconds between two ticks of each of so many nodes where nobody chose: a large job is sampled less often."""
    return float(max(1, math.ceil(nodes / LARGE)))


def completed(verdict: Verdict, options: SessionOptions, nodes: Collection[str]) -> Verdict:
    """The verdict with commands that work from here; ``nodes`` are the session's."""
    # without targets a command looks at this machine as the session does; with its name it would want ssh to it
    own, way = frozenset(nodes) if names_no_node(options) else frozenset[str](), _way(options)
    findings = [replace(found, next=tuple(_step(step, own, way) for step in found.next)) for found in verdict.findings]
    return replace(verdict, findings=tuple(findings))


def _step(step: NextStep, own: Collection[str], way: str) -> NextStep:
    words = step.command.split()
    if words[:1] != ["hangtop"] or words[1] not in REACHING:
        return step
    return replace(step, command=" ".join([*(word for word in words if word not in own), *filter(None, [way])]))


def _way(options: SessionOptions) -> str:
    words = []
    for flag, value in (
        ("-F", options.ssh_config),
        ("--slurm", job_of_slurm(options)),
        ("--via", options.via),
        ("--job", "=".join(options.job) if options.job else None),
        ("--python", options.python),
    ):
        if value is not None:
            words += [flag, str(value)]
    return shlex.join([*words, *(["--sudo"] if options.sudo else [])])


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of one session; the defaults watch this machine without SSH."""

    targets: tuple[str, ...] = ()
    """Nodes as the user wrote them: ``host``, ``user@host:port``, an alias, or a set such as ``gpu[001-064]``."""
    ssh_config: Path | None = None
    """Instead of ``~/.ssh/config``."""
    hostfile: Path | None = None
    slurm: str | None = None
    """Job id whose nodes are asked of Slurm."""
    via: str | None = None
    """How nodes are reached, instead of by SSH: see :mod:`collectors.fleet.via.way`."""
    job: tuple[str, str] | None = None
    """Only ranks whose environment has this key with this value."""
    logs: tuple[str, ...] = ()
    """Further log files on the nodes, as globs."""
    interval: float | None = None
    """Seconds between two ticks of a node; None: :func:`usual_interval`."""
    patience: float = 60.0
    """Seconds that a wait may take before it may be called a hang."""
    read_only: bool = False
    """Nothing is done on the nodes but looking: no stacks on its own, no probe, no signal."""
    batch: bool = False
    """Nobody is asked: an unknown host key is a clear failure of that node."""
    python: str | None = None
    """Interpreter on the nodes, instead of the one that is found there."""
    sudo: bool = False
    """Where the login may not read or trace what it should, ``sudo -n`` is tried."""
    label: str = ""
    """Shown beside the verdict: ``DEMO · simulated devices``, ``REPLAY …``; empty for a plain live session."""


def names_no_node(options: SessionOptions) -> bool:
    """True where nothing says which nodes are meant: then it is this machine."""
    return not options.targets and options.hostfile is None and options.via is None and job_of_slurm(options) is None


def job_of_slurm(options: SessionOptions) -> str | None:
    """The Slurm job whose nodes are meant: the one that was named, or, for steps, the allocation that this runs in."""
    return options.slurm or (os.environ.get("SLURM_JOB_ID") or None if options.via == "slurm" else None)
