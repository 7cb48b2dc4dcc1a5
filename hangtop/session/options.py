"""What a session is asked to do, as command line, configuration file or demo say it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of one session; the defaults watch this machine without SSH."""

    targets: tuple[str, ...] = ()
    """Nodes as the user wrote them: ``host``, ``user@host:port``, an alias, or a set such as ``gpu[001-064]``."""
    ssh_config: Path | None = None
    """Instead of ``~/.ssh/config``."""
    hostfile: Path | None = None
    topology: Path | None = None
    """What ``scontrol show topology`` printed, or a ``topology.conf``."""
    slurm: str | None = None
    """Job id whose nodes are asked of Slurm."""
    via: str | None = None
    """How nodes are reached, instead of by SSH: see :mod:`collectors.fleet.via.way`."""
    namespace: str | None = None
    """Of the pods, with ``--via kubectl``; None for the one that kubectl is set to."""
    selector: str | None = None
    """Labels that choose the pods."""
    container: str | None = None
    """Of each pod; None for the one that kubectl takes."""
    job: tuple[str, str] | None = None
    """Only ranks whose environment has this key with this value."""
    logs: tuple[str, ...] = ()
    """Further log files on the nodes, as globs."""
    interval: float = 1.0
    """Seconds between two ticks of a node."""
    patience: float = 60.0
    """Seconds that a wait may take before it may be called a hang."""
    read_only: bool = False
    """Nothing is done on the nodes but looking: no stacks on its own, no probe, no signal."""
    batch: bool = False
    """Nobody can be asked: a question of a connection is a clear failure of that node."""
    python: str | None = None
    """Interpreter on the nodes, instead of the one that is found there."""
    py_spy: str | None = None
    """py-spy on the nodes, instead of the one that is found there or lent."""
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
