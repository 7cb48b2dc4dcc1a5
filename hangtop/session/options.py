"""The options of a session, from the command line or the demo, and commands that repeat them."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from hangtop.diagnosis.finding import NextStep, Verdict

REACHING = frozenset(("stacks", "probe", "repair", "flame", "triage", "preflight"))
"""Commands that connect to nodes and therefore take the options of the connection."""


LARGE = 512
"""Nodes that this machine can read every second in a third of a core."""


def usual_interval(nodes: int) -> float:
    """Default seconds between two ticks of a node: a job on more nodes is sampled less often."""
    return float(max(1, math.ceil(nodes / LARGE)))


def completed(verdict: Verdict, options: SessionOptions, nodes: Collection[str]) -> Verdict:
    """The verdict with commands that work from this machine; ``nodes`` are the session's."""
    # without targets, a command looks at this machine, as the session does; with its name it would use SSH
    local, way = frozenset(nodes) if names_no_node(options) else frozenset[str](), _way(options)
    findings = [replace(one, next=tuple(_step(step, local, way) for step in one.next)) for one in verdict.findings]
    return replace(verdict, findings=tuple(findings))


def _step(step: NextStep, local: Collection[str], way: str) -> NextStep:
    words = step.command.split()
    if words[:1] != ["hangtop"] or words[1] not in REACHING:
        return step
    return replace(step, command=" ".join([*(word for word in words if word not in local), *filter(None, [way])]))


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
    """File to read instead of ``~/.ssh/config``."""
    hostfile: Path | None = None
    slurm: str | None = None
    """Id of a Slurm job whose nodes are meant."""
    via: str | None = None
    """How nodes are reached, instead of hangtop's own SSH: see :mod:`collectors.fleet.via.way`."""
    job: tuple[str, str] | None = None
    """(key, value): only ranks whose environment has this key with this value."""
    logs: tuple[str, ...] = ()
    """Further log files on the nodes, as globs."""
    interval: float | None = None
    """Seconds between two ticks of a node; None: :func:`usual_interval`."""
    patience: float = 60.0
    """Seconds that a wait may take before it may be called a hang."""
    read_only: bool = False
    """Nothing that pauses, signals, loads or asks the job: stacks without a pause are its only samples of ranks."""
    batch: bool = False
    """The user is not asked: an unknown host key makes its node fail."""
    python: str | None = None
    """Interpreter on the nodes; None to search each node's PATH."""
    sudo: bool = False
    """Try ``sudo -n`` where the login may not read or trace a process."""
    label: str = ""
    """Shown next to the verdict: ``DEMO · simulated devices``, ``REPLAY …``; empty for a plain live session."""


def names_no_node(options: SessionOptions) -> bool:
    """True if the options name no node: the session is then about this machine."""
    return not options.targets and options.hostfile is None and options.via is None and job_of_slurm(options) is None


def job_of_slurm(options: SessionOptions) -> str | None:
    """The Slurm job whose nodes are meant: the job that was named or, with --via slurm, the surrounding allocation."""
    return options.slurm or (os.environ.get("SLURM_JOB_ID") or None if options.via == "slurm" else None)
