"""Nodes of a Slurm job by steps of that job: one shell a channel, beside the job's own steps.

``--overlap`` lets it share what other steps hold, ``--mem=0`` asks for no memory of its own, ``--mpi=none`` starts no
PMI, and one task on one node has standard input for itself. Never ``--unbuffered`` or ``--pty``: those are terminals.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence

from collectors.fleet.targets.chosen import Target, parse
from collectors.fleet.targets.slurm import SlurmComponent, slurm_words
from collectors.fleet.transport import Refused

_STEP = ("--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--mpi=none")
# What tells a step's task its place would make hangtop's own programs ranks of the job.
_PLACE = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NPROCS")
_SHELL = ("env", *(word for name in _PLACE for word in ("-u", name)), "sh")
_ADVICE = (
    ("Invalid job id", "the job is over: name one that runs"),
    ("invalid job", "the job is over: name one that runs"),
    ("Access/permission denied", "a step needs the job's owner, or an operator of Slurm"),
    ("Access denied", "a step needs the job's owner, or an operator of Slurm"),
    ("step creation", "its steps hold all there is, or slurmctld is busy: --overlap needs Slurm 20.11 or newer"),
    ("Requested nodes are busy", "its steps hold all there is: --overlap needs Slurm 20.11 or newer"),
    ("Memory required by task", "the other steps hold all of the job's memory"),
    ("Unable to contact slurm controller", "slurmctld does not answer: ask again later, or reach the nodes by SSH"),
    ("Socket timed out", "slurmctld is busy: ask again later, or reach the nodes by SSH"),
)


class Srun:
    """Steps in the parts of one job."""

    opening = 60.0
    channels = 3
    at_once = 8

    def __init__(self, parts: Sequence[SlurmComponent]) -> None:
        self._parts: dict[str, SlurmComponent] = {}
        for part in parts:
            for target in parse([part.nodes]):
                self._parts.setdefault(target.host, part)
        self._users = {part.user for part in parts} - {""}

    def _lead(self, target: Target) -> list[str]:
        part = self._parts.get(target.host)
        if part is None:
            raise Refused(f"{target.name}: the Slurm job has no such node")
        whole, plus, component = part.label.partition("+")
        job = [f"--jobid={whole}", f"--het-group={component}"] if plus else [f"--jobid={part.number}"]
        return ["srun", *job, f"--nodelist={target.host}", *_STEP]

    async def prepare(self, target: Target) -> None:
        """Nothing to ask."""

    def words(self, target: Target) -> list[str]:
        """A step that runs a shell on the node."""
        return slurm_words([*self._lead(target), *_SHELL])

    def terminal(self, target: Target) -> list[str]:
        """The same with a terminal."""
        return slurm_words([*self._lead(target), "--pty", *_SHELL])

    def advice(self, said: str) -> str:
        """What to do about a complaint of srun."""
        return next((advice for words, advice in _ADVICE if words.lower() in said.lower()), "")

    def needs(self) -> str:
        """Rights that steps need and that are missing, as far as known; empty for none."""
        if os.geteuid() == 0 or not self._users or getpass.getuser() in self._users:
            return ""
        return f"steps in a job of {', '.join(sorted(self._users))} need that user, or an operator of Slurm"
