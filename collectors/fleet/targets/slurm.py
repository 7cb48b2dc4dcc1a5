"""A Slurm job: its parts, their nodes and log files, by ``scontrol``, else ``squeue``.

A plain job has one part, an array one part a task, a heterogeneous job one part a component. ``srun --jobid`` takes the
number of an array's task; a component is reached by the number of the whole job and ``--het-group``. Formats:
scontrol(1) and squeue(1) of Slurm 22.05.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collectors.fleet.clean import clean
from collectors.fleet.targets.chosen import TargetError

_JOB = re.compile(r"[0-9]{1,12}([._+][A-Za-z0-9+]{1,12})*\Z")
_FIRST = re.compile(
    r"JobId=([0-9]{1,12})(?: ArrayJobId=([0-9]{1,12}) ArrayTaskId=([^ ]{1,4096}))?"
    r"(?: HetJobId=([0-9]{1,12}) HetJobOffset=([0-9]{1,12}))?"
)
_FIELD = re.compile(r" {1,8}(JobState|NodeList|UserId|StdOut|StdErr|EndTime)=(.*)")
_NONE = frozenset(("", "(null)", "None", "n/a", "N/A", "/dev/null"))
_HOLDS_NODES = frozenset(("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"))
_PATTERN = re.compile(r"%[0-9]{0,4}[A-Za-z]")
_DEADLINE = 20.0
_SQUEUE = "%A|%i|%T|%u|%N"
_PREFIXES = ("SLURM_", "SRUN_", "SQUEUE_", "SINFO_", "SCONTROL_")
_KEPT = frozenset(("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT"))


@dataclass(frozen=True, slots=True)
class SlurmComponent:
    """One part of a job."""

    number: str
    """Its own job id."""
    label: str
    """Its name for people: ``17``, ``17_3``, ``17+1``."""
    state: str
    nodes: str
    """Folded as Slurm writes it, ``gpu[001-004]``; empty while it has none."""
    user: str = ""
    logs: tuple[str, ...] = ()
    """Files that it writes to, as globs."""

    @property
    def runs(self) -> bool:
        """True while it holds nodes."""
        return bool(self.nodes) and self.state in _HOLDS_NODES


def slurm_words(words: Sequence[str], env: Mapping[str, str] = os.environ) -> list[str]:
    """The command without Slurm's options from the environment, many of which an allocation sets.

    ``SLURM_LABELIO`` puts a number before each line, ``SQUEUE_USERS`` hides jobs. Variables that name the cluster stay.
    """
    names = sorted(name for name in env if name.startswith(_PREFIXES) and name not in _KEPT)
    without = [word for name in names for word in ("-u", name)]
    return ["env", *without, *words] if without else list(words)


def parts_of_job(job: str) -> tuple[SlurmComponent, ...]:
    """Parts of a job that hold nodes. Blocks for up to 40 s. Raises :class:`TargetError` when there is none."""
    if not _JOB.match(job):
        raise TargetError(f"{job!r} is no Slurm job id")
    if shutil.which("squeue") is None and shutil.which("scontrol") is None:
        raise TargetError("neither squeue nor scontrol is here: name the nodes, or run this where Slurm is")
    complaints: list[str] = []
    found = read_scontrol(_ask(["scontrol", "show", "job", job], complaints))
    if not any(part.runs for part in found):
        rows = _ask(["squeue", "--noheader", "--jobs", job, "--states", "all", "--format", _SQUEUE], complaints)
        found = read_squeue(rows) or found
    if running := tuple(part for part in found if part.runs):
        return running
    if found:
        raise TargetError(f"Slurm job {job} has no nodes: it is {found[0].state or 'in no state'}")
    raise TargetError(f"Slurm job {job} has no nodes: {complaints[0] if complaints else 'Slurm does not know it'}")


def read_scontrol(text: str) -> tuple[SlurmComponent, ...]:
    """Parts in the output of ``scontrol show job``, one paragraph each."""
    found: list[SlurmComponent] = []
    for paragraph in re.split(r"(?m)^(?=JobId=)", text):
        first = _FIRST.match(paragraph)
        if first is None:
            continue
        fields: dict[str, str] = {}
        for line in paragraph.splitlines()[1:]:
            if field := _FIELD.match(line):
                fields.setdefault(field[1], field[2])
        number, array, task, whole, offset = first.groups()
        label = f"{array}_{task}" if array else f"{whole}+{offset}" if whole else number
        nodes = _word(fields.get("NodeList", ""))
        logs = (log_glob(fields.get(name, "")) for name in ("StdOut", "StdErr"))
        found.append(
            SlurmComponent(
                number, label, _word(fields.get("JobState", "")), "" if nodes in _NONE else nodes,
                fields.get("UserId", "").partition("(")[0], tuple(dict.fromkeys(filter(None, logs))),
            )
        )  # fmt: skip
    return tuple(found)


def read_squeue(text: str) -> tuple[SlurmComponent, ...]:
    """Parts in the output of ``squeue --format '%A|%i|%T|%u|%N'``, one line each, without files."""
    found: list[SlurmComponent] = []
    for line in text.splitlines():
        number, _, rest = line.strip().partition("|")
        fields = rest.split("|", 3)
        if number.isdecimal() and len(fields) == 4:
            label, state, user, nodes = (field.strip() for field in fields)
            found.append(SlurmComponent(number, label, state, "" if nodes in _NONE else nodes, user))
    return tuple(found)


def log_glob(path: str) -> str:
    """A glob for the files of an output pattern such as ``/logs/%j-%t.out``; empty for none."""
    path = path.strip()
    if path in _NONE or not path.startswith("/"):
        return ""
    parts = _PATTERN.split(path)
    return "*".join(glob.escape(part.replace("%%", "%")) for part in parts)


def _word(text: str) -> str:
    return text.split(" ", 1)[0].strip()


def _ask(command: list[str], complaints: list[str]) -> str:
    """Output of a Slurm command; empty, with a complaint added, when it fails."""
    try:
        done = subprocess.run(slurm_words(command), capture_output=True, timeout=_DEADLINE, check=False)
    except FileNotFoundError:
        return ""
    except subprocess.TimeoutExpired:
        complaints.append(f"{command[0]} did not answer within {_DEADLINE:.0f} s")
        return ""
    if done.returncode != 0:
        said = clean(done.stderr.decode("utf-8", "replace")).strip().splitlines()
        complaints.append(said[-1] if said else f"{command[0]} ended with status {done.returncode}")
        return ""
    return clean(done.stdout.decode("utf-8", "replace"))
