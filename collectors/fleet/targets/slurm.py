"""The nodes and log files of a Slurm job, read from ``scontrol show job``.

A job array has one part per task, each with its own job id.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from collectors.fleet.clean import clean_bytes
from collectors.fleet.targets.chosen import TargetError

_JOB = re.compile(r"[0-9]{1,12}([._+][A-Za-z0-9+]{1,12})*\Z")
_FIELD = re.compile(r" {1,8}(JobState|NodeList|StdOut|StdErr)=(.*)")
_NONE = frozenset(("", "(null)", "None", "n/a", "N/A", "/dev/null"))
_HOLDS_NODES = frozenset(("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"))
_PATTERN = re.compile(r"%[0-9]{0,4}[A-Za-z]")
_DEADLINE = 20.0
_PREFIXES = ("SLURM_", "SRUN_", "SCONTROL_")
_KEPT = frozenset(("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT"))


@dataclass(frozen=True, slots=True)
class SlurmPart:
    """One part of a job."""

    number: str
    """Its own job id."""
    state: str
    nodes: str
    """As Slurm folds them, ``gpu[001-004]``; empty while it has none."""
    logs: tuple[str, ...] = ()
    """Globs of the files that it writes to."""


def slurm_words(words: Sequence[str]) -> list[str]:
    """The command without the options that Slurm reads from the environment, many of which an allocation sets.

    For example, ``SLURM_LABELIO`` puts a number before each line. Variables that name the cluster stay.
    """
    names = sorted(name for name in os.environ if name.startswith(_PREFIXES) and name not in _KEPT)
    without = [word for name in names for word in ("-u", name)]
    return ["env", *without, *words] if without else list(words)


def parts_of_job(job: str) -> tuple[SlurmPart, ...]:
    """Parts of a job that hold nodes. Blocks for up to 20 s. Raises :class:`TargetError` if no part does."""
    if not _JOB.match(job):
        raise TargetError(f"{job!r} is no Slurm job id")
    if shutil.which("scontrol") is None:
        raise TargetError("there is no scontrol here: name the nodes, or run this where Slurm is")
    words = slurm_words(["scontrol", "show", "job", job])
    try:
        done = subprocess.run(words, capture_output=True, timeout=_DEADLINE, check=False)
    except subprocess.TimeoutExpired:
        raise TargetError(f"scontrol show job did not answer within {_DEADLINE:.0f} s") from None
    found = read_parts(clean_bytes(done.stdout))
    if running := tuple(part for part in found if part.nodes and part.state in _HOLDS_NODES):
        return running
    said = clean_bytes(done.stderr).strip().splitlines()
    why = f"it is {found[0].state or 'in no state'}" if found else said[-1] if said else "Slurm does not know it"
    raise TargetError(f"Slurm job {job} has no nodes: {why}")


def read_parts(text: str) -> tuple[SlurmPart, ...]:
    """The parts in the output of ``scontrol show job``, one per paragraph."""
    found: list[SlurmPart] = []
    for number, paragraph in re.findall(r"(?m)^JobId=([0-9]{1,12})(.*\n(?:(?!JobId=).*\n?)*)", text):
        fields: dict[str, str] = {}
        for line in paragraph.splitlines()[1:]:
            if field := _FIELD.match(line):
                fields.setdefault(field[1], field[2])
        state, nodes = (fields.get(name, "").partition(" ")[0].strip() for name in ("JobState", "NodeList"))
        logs = (log_glob(fields.get(name, "")) for name in ("StdOut", "StdErr"))
        kept = tuple(dict.fromkeys(filter(None, logs)))
        found.append(SlurmPart(number, state, "" if nodes in _NONE else nodes, kept))
    return tuple(found)


def log_glob(path: str) -> str:
    """A glob for an output pattern such as ``/logs/%j-%t.out``: ``/logs/*-*.out``; empty without an absolute path."""
    path = path.strip()
    if path in _NONE or not path.startswith("/"):
        return ""
    return "*".join(glob.escape(part.replace("%%", "%")) for part in _PATTERN.split(path))
