"""The nodes of a Slurm job, as squeue and scontrol tell."""

from __future__ import annotations

import re
import shutil
import subprocess

from collectors.fleet.target_error import TargetError

_JOB = re.compile(r"[0-9]+([._+][A-Za-z0-9+]+)*\Z")
_NODES = re.compile(r"(?:^|\s)NodeList=(\S+)")
_NONE = ("", "(null)", "None", "n/a")
_DEADLINE = 20.0


def nodes_of_job(job: str) -> str:
    """Node set of a running job, folded as Slurm writes it (``gpu[001-004]``).

    Runs squeue, and scontrol where that says nothing, each with a deadline of 20 s. Raises :class:`TargetError`.
    """
    if not _JOB.match(job):
        raise TargetError(f"{job!r} is no Slurm job id")
    if shutil.which("squeue") is None and shutil.which("scontrol") is None:
        raise TargetError("neither squeue nor scontrol is here: name the nodes, or run this where Slurm is")
    complaints: list[str] = []
    state = ""
    for line in _ask(["squeue", "--noheader", "--jobs", job, "--format", "%T %N"], complaints):
        state, _, nodes = line.strip().partition(" ")
        if nodes.strip() not in _NONE:
            return nodes.strip()
    found = {nodes for line in _ask(["scontrol", "show", "job", job], complaints) for nodes in _NODES.findall(line)}
    if nodes := ",".join(sorted(found.difference(_NONE))):
        return nodes
    if state:
        raise TargetError(f"Slurm job {job} has no nodes: it is {state}")
    raise TargetError(f"Slurm job {job} has no nodes: {complaints[0] if complaints else 'Slurm does not know it'}")


def _ask(command: list[str], complaints: list[str]) -> list[str]:
    """Lines that a command of Slurm prints; none and a complaint when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE, check=False, errors="replace")
    except FileNotFoundError:
        return []
    except subprocess.TimeoutExpired:
        complaints.append(f"{command[0]} did not answer within {_DEADLINE:.0f} s")
        return []
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        complaints.append(said[-1] if said else f"{command[0]} ended with status {done.returncode}")
        return []
    return done.stdout.splitlines()
