"""Nodes of a Slurm job by steps of that job: one shell a channel, beside the job's own steps.

``--overlap`` lets it share what other steps hold, ``--mem=0`` asks for no memory of its own, ``--mpi=none`` starts no
PMI, and one task on one node has standard input for itself. Never ``--unbuffered`` or ``--pty``: those are terminals.
"""

from __future__ import annotations

from collections.abc import Sequence

from collectors.fleet.targets.chosen import Target, parse
from collectors.fleet.targets.slurm import SlurmPart, slurm_words
from collectors.fleet.transport import Refused
from collectors.fleet.via.way import Way

_STEP = ("--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--mpi=none")
# What tells a step's task its place would make hangtop's own programs ranks of the job.
_PLACE = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NPROCS")
_SHELL = ("env", *(word for name in _PLACE for word in ("-u", name)), "sh")
_ADVICE = (
    ("invalid job", "the job is over: name one that runs"),
    ("permission denied", "a step needs the job's owner, or an operator of Slurm"),
    ("access denied", "a step needs the job's owner, or an operator of Slurm"),
    ("step creation", "its steps hold all there is, or slurmctld is busy: --overlap needs Slurm 20.11 or newer"),
    ("requested nodes are busy", "its steps hold all there is: --overlap needs Slurm 20.11 or newer"),
    ("memory required by task", "the other steps hold all of the job's memory"),
    ("unable to contact slurm controller", "slurmctld does not answer: ask again later, or reach the nodes by SSH"),
    ("socket timed out", "slurmctld is busy: ask again later, or reach the nodes by SSH"),
)


def srun(parts: Sequence[SlurmPart]) -> Way:
    """Steps in the parts of one job."""
    by_node: dict[str, SlurmPart] = {}
    for part in parts:
        for target in parse([part.nodes]):
            by_node.setdefault(target.host, part)

    def step(target: Target, *terminal: str) -> list[str]:
        part = by_node.get(target.host)
        if part is None:
            raise Refused(f"{target.name}: the Slurm job has no such node")
        where = [f"--jobid={part.number}", f"--nodelist={target.host}"]
        return slurm_words(["srun", *where, *_STEP, *terminal, *_SHELL])

    return Way(step, lambda target: step(target, "--pty"), _ADVICE, opening=60.0, channels=3)
