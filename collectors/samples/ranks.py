"""Processes of a job: ranks and what they forked."""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional


class RankProcess(NamedTuple):
    """A process of the job, and what does not move: sent when first seen and when it changes."""

    pid: int
    started: float
    rank: int
    """-1 where its number is not known."""
    local_rank: Optional[int]
    world_size: Optional[int]
    local_world_size: Optional[int]
    master_addr: str
    master_port: Optional[int]
    launcher: str
    """``torchrun``, ``slurm``, ``mpi``, ``jax``, ``lightning`` or ``env``; empty without a number."""
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
    """Path as the node sees it, ``%h`` and ``%p`` resolved; empty when NCCL_DEBUG_FILE is not set."""
    env: Dict[str, str]
    """Only the allow-listed names (see ``collectors.node.processes.environ``)."""
    versions: Dict[str, str]
    """``torch``, ``nccl``, ``cuda``, as far as files beside the interpreter tell."""
    library: str = ""
    """Of a process that says no rank: the library that is mapped into it, ``torch``, ``jax`` or ``nccl``."""
    label: str = ""
    """The title that a process without a number gave itself, such as ``VLLM::Worker_TP1``: a rank of some group."""
    own_pid: int = 0
    """Its number in its own PID namespace, which NCCL's log and RAS say; 0 where that is ``pid``."""
    adopted: bool = False
    """An init is its parent: the process that started it is gone."""
    allowed: str = ""
    """CPUs that it may run on, as the kernel lists them: ``0-15,32``."""
    nice: int = 0


class RankPulse(NamedTuple):
    """What moves in a rank's process."""

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
    """CPU seconds of the processes that it forked, of those that are alive and of those that it has waited for."""
    main_cpu: Optional[float] = None
    """CPU seconds of its main thread alone; None where the kernel does not tell."""
    helpers_bytes: Optional[int] = None
    """Bytes that those of its helpers have read and written that live and are no workers of a loader or a compiler."""
    waited: Optional[int] = None
    """Per cent of the last seconds in which its main thread was ready to run and had no CPU, in steps of 5."""


class IdleLauncher(NamedTuple):
    """A launcher of the job's that runs on a node on which no rank does."""

    pid: int
    started: float
    command: str
    since: Optional[float] = None
    """Since when at the latest it is without the ranks that it had started; None where it has started none yet."""


class ProcessGone(NamedTuple):
    """A rank, a helper or an idle launcher is no longer there, or no longer is what it was told to be."""

    pid: int
    at: float
    ended: bool = True
    """False for one that lives."""


class Helper(NamedTuple):
    """A process that a rank forked: it inherits RANK and belongs to that rank."""

    pid: int
    rank_pid: int
    role: str
    """``data_worker`` for one of a loader that is named so, or ``helper``."""
    state: str
    wchan: str
    rss: int
    command: str
    ended: Optional[int] = None
    """How it ended, as wait(2) tells it, of one in state Z that the rank has not waited for; None where unknown."""
