"""Processes of a job: ranks, their child processes, launchers, and reports of processes that use hangtop.inside."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional


class RankProcess(NamedTuple):
    """A rank and those of its properties that rarely change: sent when first seen and on change."""

    pid: int
    started: float
    rank: int
    """-1 when unknown."""
    local_rank: Optional[int]
    world_size: Optional[int]
    local_world_size: Optional[int]
    master_addr: str
    master_port: Optional[int]
    launcher: str
    """``torchrun``, ``slurm``, ``mpi``, ``jax``, ``lightning`` or ``env``; empty without a rank number."""
    run_id: str
    restart: Optional[int]
    parent: int
    command: str
    cwd: str
    container: str
    """Container id or cgroup name; empty outside one."""
    uid: int
    user: str
    stdout: str
    stderr: str
    nccl_log: str
    """NCCL_DEBUG_FILE as a path on the node, ``%h`` and ``%p`` resolved; empty when the variable is not set."""
    env: Dict[str, str]
    """Only the allow-listed names (see ``collectors.node.processes.environ``)."""
    versions: Dict[str, str]
    """``torch``, ``nccl``, ``cuda``, as found in the interpreter's installation."""
    library: str = ""
    """For a process without RANK in its environment: the library mapped into it, ``torch``, ``jax`` or ``nccl``."""
    label: str = ""
    """Process title of a process without a rank number, such as ``VLLM::Worker_TP1``: a rank of some group."""
    own_pid: int = 0
    """The pid in its own PID namespace, which NCCL's log and RAS print; 0 when equal to ``pid``."""
    adopted: bool = False
    """True when an init is its parent: the process that started the rank is gone."""
    allowed: str = ""
    """CPUs in its affinity mask, as the kernel lists them: ``0-15,32``."""
    nice: int = 0


class RankPulse(NamedTuple):
    """The changing figures of a rank's process."""

    pid: int
    state: str
    """One letter of /proc/PID/stat: R S D T t Z X I."""
    wchan: str
    cpu_user: float
    cpu_system: float
    voluntary_switches: int
    involuntary_switches: int
    rss: int
    threads: int
    read_bytes: Optional[int]
    """Bytes read from storage and pipes (``rchar``) since start."""
    written_bytes: Optional[int]
    helpers_cpu: float
    """CPU seconds of the rank's child processes: those alive, and those that ended and were waited for."""
    main_cpu: Optional[float] = None
    """CPU seconds of the main thread alone; None if the kernel does not report them."""
    helpers_bytes: Optional[int] = None
    """Bytes read and written by the rank's living helpers, data workers excluded."""
    waited: Optional[int] = None
    """Per cent of the last seconds in which the main thread was runnable but had no CPU, in steps of 5."""


class IdleLauncher(NamedTuple):
    """A launcher of the job on a node where no rank runs."""

    pid: int
    started: float
    command: str
    since: Optional[float] = None
    """The latest time at which its ranks can have ended; None if it has not started any yet."""


class ProcessGone(NamedTuple):
    """A rank, helper or idle launcher that has ended, or no longer has that role."""

    pid: int
    at: float
    ended: bool = True
    """False if the process lives on in another role."""


class Helper(NamedTuple):
    """A child process of a rank: it inherits RANK and belongs to that rank."""

    pid: int
    rank_pid: int
    role: str
    """``data_worker`` (a loader's worker, by its process name) or ``helper``."""
    state: str
    wchan: str
    rss: int
    command: str
    ended: Optional[int] = None
    """Wait status (wait(2)) of a helper in state Z that the rank has not waited for; None when unknown."""


class InsidePulse(NamedTuple):
    """Step and phase of a process, as the job reports them; both are unset once its page is gone."""

    pid: int
    step: Optional[int]
    """The last completed step; None before the first."""
    step_at: Optional[float]
    phase: str
    """``data``, ``forward``, ``backward``, ``optimizer``, ``checkpoint``, ``evaluation``; empty if none is reported."""
    phase_at: Optional[float]


class InsideFinding(NamedTuple):
    """One finding of a check."""

    kind: str
    severity: str
    summary: str
    ranks: List[int]
    """The culprits."""
    evidence: List[str]
    advice: str


class InsideResult(NamedTuple):
    """The latest result of a check that the job ran, as one of its processes reports it."""

    pid: int
    check: str
    """One of :data:`collectors.samples.page.CHECKS`."""
    at: float
    ranks: List[int]
    """Ranks of the group that took part in the check."""
    ok: bool
    seconds: float
    summary: str
    findings: List[InsideFinding]
