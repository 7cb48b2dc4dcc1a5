"""Jobs that were never started: what batch systems, launchers, shells and ssh say when they refuse.

``launcher.refused`` has ``launcher`` and ``why`` (``vague``: tasks did not start, not why); the event's host is the
node that refused, where it is named.
Formats: Slurm's ``slurm_errno.c`` behind ``srun: error:``, Open MPI's and PRRTE's help texts (``help-*.txt``), OpenSSH,
pdsh, Flux's shell, GNU bash.
"""

from __future__ import annotations

from typing import Iterator, Tuple

from collectors.node import late_re as re
from collectors.node.logs.families.launchers import UNREACHED
from collectors.node.logs.said import Data, Family, Said

_PROGRAMS = (
    r"(?:torchrun|mpirun|mpiexec|orterun|prterun|srun|sbatch|deepspeed|accelerate|horovodrun|colossalai|ray|python3?"
    r"|pdsh|torchx|composer|singularity|apptainer|enroot|docker)"
)
_SLURM = (
    r"(?:srun|sbatch|salloc)\S{0,30}: error: (?P<why>(?:Unable to (?:create (?:step|job)"
    r"|allocate resources|confirm alloc"
    r"|contact slurm)|Batch job submission failed|(?:Job|Step) submit/allocate failed"
    r"|[Ii]nvalid (?:generic resource|partition"
    r"|account|qos|numeric|job credential|--)|task \d{1,7} launch failed|CPU binding outside|Unable to satisfy|"
    r"Job allocation \d{1,12} has been revoked)[^\r\n]{0,200})"
)
_PROLOG = r"(?:salloc|srun|sbatch): (?:error: )?(?P<why>Prolog failure on node (?P<host>[\w.-]{1,120}))"
_HUNG = r"slurmstepd: error: (?P<why>Prolog hung on node (?P<host>[\w.-]{1,120}))"
_STEPD = (
    r"slurmstepd\S{0,80}: error: (?P<why>execve\(\): [^\r\n]{1,160}|(?:spank: required plugin"
    r"|Failed to invoke spank)[^\r\n]{0,160}"
    r"|[^\r\n]{0,60}task_prolog [^\r\n]{0,160}|run_command: [^\r\n]{0,160})"
)
_LAUNCH = (
    r"Task launch for \S{1,40} failed on node \[?(?P<host>[\w.-]{1,120})\]?: (?P<why>(?!"
    + UNREACHED
    + r")[^\r\n]{1,200})"
    r"|(?:srun|sbatch|salloc)\S{0,30}: (?P<late>(?:error: )?timeout waiting for task launch[^\r\n]{0,80}"
    r"|StepId=\S{1,40} aborted before step completely launched)"
)
_OPEN_MPI = (
    r"(?P<why>There are not enough slots available in the system[^\r\n]{0,80}"
    r"|(?:mpirun|mpiexec|prterun|orterun) has detected an attempt to run as root"
    r"|(?:mpirun|mpiexec|prterun|orterun) was unable to (?:find|launch) the specified [^\r\n]{0,80}"
    r"|(?:mpirun|mpiexec|prterun|orterun) could not find anything to do"
    r"|All nodes which are allocated for this job are already filled"
    r"|[Yy]our job has requested more processes than the ppr[^\r\n]{0,60}"
    r"|A request (?:was made to bind|for multiple cpus-per-proc)[^\r\n]{0,80}"
    r"|(?:An )?(?:ORTE|PRTE|PRRTE) (?:daemon has unexpectedly failed after launch"
    r"|was unable to reliably start one or more daemons)"
    r"|The application appears to have been direct launched using [^\r\n]{0,40}"
    r"|[Nn]o executable was specified on the (?:mpirun|mpiexec|prterun)[^\r\n]{0,40})"
)
_SSH = (
    r"(?:(?P<user>[\w.-]{1,60})@(?P<host>[\w.-]{1,120}): )?(?P<why>Permission denied"
    r" \([\w,-]{4,80}\)|Host key verification failed)"
)
_FLUX = (
    r"(?:flux-shell\[\d{1,6}\]: FATAL: |job\.exception \S{1,30} type=(?:exec"
    r"|alloc) severity=0 )(?P<why>task \d{1,7}: start failed: [^\r\n]{1,160})"
)
_BASH = rf"(?:^|[ :])(?P<why>{_PROGRAMS}: (?:command )?not found)\s{{0,4}}$"
_ABSENT = (
    r"^(?:bash|sh|zsh|env|nohup|exec): (?:line \d{1,5}: |\d{1,5}: )?"
    rf"(?P<why>(?:/[\w./+-]{{0,200}}/)?{_PROGRAMS}[\d.]{{0,5}}: No such file or directory)"
)
"""A shell on a node that does not find there what it is to run."""
_FILE = r"^(?:/\S{0,200}/)?python[\d.]{0,5}: (?P<why>can't open file '?[^\r\n]{1,300})"
_MODULE = r"(?P<why>/\S{1,200}/python[\d.]{0,5}: No module named (?:torch|deepspeed|accelerate|horovod)[\w.]{0,60})"
_BATCH = (
    r"(?:qsub|bsub|condor_submit|msub): (?P<why>(?:error: |ERROR: )?(?:Job (?:exceeds|rejected|violates)|[Ii]llegal"
    r"|[Uu]nauthorized"
    r"|[Uu]nknown (?:queue|resource)|Bad UID|submit error|Invalid|Unable to run job|No such queue|Request aborted"
    r"|Failed to)[^\r\n]{0,200})"
)
"""Torque, PBS Professional, Grid Engine, LSF and HTCondor, when they do not take a job."""
_HYDRA = (
    r"\[(?:proxy:[\d:]{1,12}|mpiexec)@(?P<host>[\w.-]{1,120})\] HYD\w{1,60} \([^)\r\n]{1,200}\): "
    r"(?P<why>execvp error on file [^\r\n]{1,240})"
)
"""MPICH's process manager, on the node that does not have the program."""
_WHERE = re.compile(r"^ {0,4}(?:Node|Local host|Host): {2,12}(?P<host>[A-Za-z][\w.-]{0,120})\s{0,4}$")
"""The node that the help texts of Open MPI name under what they say."""
_WAYS: Tuple[Tuple[str, "re.Pattern[str]"], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("slurm", _PROLOG), ("slurm", _HUNG), ("slurm", _SLURM), ("slurm", _STEPD), ("slurm", _LAUNCH),
        ("batch", _BATCH), ("mpi", _OPEN_MPI), ("ssh", _SSH), ("flux", _FLUX), ("hydra", _HYDRA),
        ("shell", _BASH),
        ("shell", _ABSENT), ("shell", _FILE), ("shell", _MODULE),
    )
)  # fmt: skip


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    where = _WHERE.match(text)
    if where is not None:
        yield Said("launcher.refused", {"launcher": "mpi", "why": "", "where": True}, host=where.group("host"))
        return
    for launcher, pattern in _WAYS:
        match = pattern.search(text)
        if match is not None:
            groups = match.groupdict()
            data: Data = {"launcher": launcher, "why": (groups["why"] or groups["late"]).strip()[:240]}
            if groups.get("late"):
                data["vague"] = True
            yield Said("launcher.refused", data, host=groups.get("host") or "")
            return


FAMILY = Family(
    "refusals",
    (
        b"srun: error", b"sbatch: error", b"salloc: error", b"slurmstepd", b"Task launch for", b"not enough slots",
        b"step completely",
        b"qsub: ", b"bsub: ", b"msub: ", b"condor_submit: ",
        b"attempt to run as root", b"was unable to find", b"was unable to launch", b"could not find anything to do",
        b"allocated for this job", b"than the ppr", b"A request ", b"daemon has unexpectedly failed",
        b"to reliably start", b"direct launched", b"executable was specified", b"Permission denied (",
        b"Host key verification", b"start failed: ", b"No such file or dir", b"Prolog failure", b"not found",
        b"can't open file", b"No module named ",
        b"Node:  ", b"ocal host:  ", b"Host:  ",
    ),
    read,
)  # fmt: skip
