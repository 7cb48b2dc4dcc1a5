"""Reads a process's rank from its environment, and selects the variables that may leave the node.

An environment holds secrets. It is read on the node; only the names listed below are sent, and values of names that
sound like a secret are redacted.
"""

from __future__ import annotations

from typing import Dict, Mapping, NamedTuple, Optional, Tuple

from collectors.node import redact
from collectors.node.files import text

PREFIXES = (
    "NCCL_", "TORCH_", "TORCHELASTIC_", "GLOO_", "CUDA_", "UCX_", "FI_", "SLURM_", "OMPI_", "PMI_", "MASTER_", "PET_",
)  # fmt: skip
"""Prefixes of names that may leave the node: variables of launchers and of the communication libraries."""

NAMES = frozenset(
    (
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE",
        "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE", "MPI_LOCALRANKID",
        "OMP_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "NVIDIA_VISIBLE_DEVICES",
        "ACCELERATE_DISABLE_NCCL", "PYTHONFAULTHANDLER", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JOB_COMPLETION_INDEX",
        "SLURMD_NODENAME", "KUBERNETES_SERVICE_HOST",
    )
)  # fmt: skip
"""Further names, in full."""

NO_RANK = -1
"""Placeholder for an unknown rank number."""

VALUE_LIMIT = 1024
"""Characters sent of one value."""


class RankEnvironment(NamedTuple):
    """Rank, job and launcher of a process according to its environment."""

    rank: int
    """:data:`NO_RANK` when unknown."""
    world_size: Optional[int]
    local_rank: Optional[int]
    local_world_size: Optional[int]
    master_addr: str
    master_port: Optional[int]
    launcher: str
    """``torchrun``, ``slurm``, ``mpi``, ``jax``, ``lightning`` or ``env``; empty without a rank number."""
    run_id: str
    restart: Optional[int]
    assigned: bool
    """True when a launcher gave the rank to this process alone; False if a whole node or pod may share the rank."""

    @property
    def job(self) -> Tuple[object, ...]:
        """Values that all ranks of one run of one job share."""
        return self.world_size, self.run_id, self.restart, self.master_addr, self.master_port


def parse(data: bytes) -> Dict[str, str]:
    """Names and values of /proc/PID/environ. A repeated name keeps its first value, as in getenv."""
    found: Dict[str, str] = {}
    for entry in data.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name:
            found.setdefault(text(name), text(value))
    return found


_NUMBERINGS: Tuple[Tuple[str, str, Tuple[str, ...]], ...] = (
    ("mpi", "OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",)),
    ("mpi", "PMI_RANK", ("PMI_SIZE",)),
    ("slurm", "SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")),
    ("jax", "JAX_PROCESS_ID", ("JAX_NUM_PROCESSES",)),
)
"""Launcher, its variable for the rank, its variables for the world size. RANK with WORLD_SIZE takes precedence."""


def may_have_rank(data: bytes) -> bool:
    """Cheap check of a raw environment: False proves that it contains no rank."""
    return b"RANK=" in data or b"SLURM_PROCID=" in data or b"JAX_PROCESS_ID=" in data


def rank_of(env: Mapping[str, str]) -> Optional[RankEnvironment]:
    """The rank that an environment contains; None without a rank.

    Last resort: Lightning gives its processes a local rank and a node rank; on node 0 the local rank is the rank.
    """
    rank, world, local = (_number(env, name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    if rank is not None and world is not None:
        agreeing = (launcher for launcher, number, _ in _NUMBERINGS if _number(env, number) == rank)
        torchrun = "TORCHELASTIC_RUN_ID" in env
        launcher = "torchrun" if torchrun else next(agreeing, "env")
        return _environment(env, rank, world, launcher, assigned=torchrun or local is not None)
    for launcher, number, sizes in _NUMBERINGS:
        rank, size = _number(env, number), _number(env, *sizes)
        if rank is not None and launcher == "slurm" and not {"SLURM_STEP_ID", "SLURM_STEPID"} & env.keys():
            # the batch script also has SLURM_PROCID=0
            return _environment(env, rank, size, launcher, assigned=False) if (size or 1) == 1 else None
        if rank is not None:
            return _environment(env, rank, size, launcher, assigned=launcher != "slurm")
    if local is None or world is None or _number(env, "GROUP_RANK", "NODE_RANK") != 0:
        return None
    return _environment(env, local, world, "lightning", assigned=True)


def rank_of_member(env: Mapping[str, str]) -> RankEnvironment:
    """Rank of a process that belongs to a job because it has mapped a training library.

    ``RANK`` without ``WORLD_SIZE`` suffices: the script may pass the size to ``init_process_group``.
    """
    rank = _number(env, "RANK")
    return rank_of(env) or _environment(
        env, NO_RANK if rank is None else rank, _number(env, "WORLD_SIZE"), "" if rank is None else "env",
        assigned=rank is not None,
    )  # fmt: skip


def _environment(
    env: Mapping[str, str], rank: int, world: Optional[int], launcher: str, *, assigned: bool
) -> RankEnvironment:
    """The rank, with the other fields read from the environment."""
    return RankEnvironment(
        rank=rank,
        world_size=world,
        local_rank=_number(env, "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"),
        local_world_size=_number(env, "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"),
        master_addr=env.get("MASTER_ADDR", ""),
        master_port=_number(env, "MASTER_PORT"),
        launcher=launcher,
        run_id=env.get("TORCHELASTIC_RUN_ID") or env.get("SLURM_JOB_ID", ""),
        restart=_number(env, "TORCHELASTIC_RESTART_COUNT"),
        assigned=assigned,
    )


def _number(env: Mapping[str, str], *names: str) -> Optional[int]:
    """Value of the first of these variables that holds a non-negative integer."""
    for name in names:
        value = env.get(name, "")
        if value.isascii() and value.isdigit() and len(value) < 10:
            return int(value)
    return None


def presentable(env: Mapping[str, str]) -> Dict[str, str]:
    """The part of an environment that may leave the node, secrets redacted.

    Values are searched too, because launchers store command lines and variables in them: ``OMPI_ARGV``,
    ``OMPI_MCA_mca_base_env_list``, ``SLURM_EXPORT_ENV``.
    """
    return {
        name: redact.REDACTED if redact.sounds_secret(name) else redact.within(value[:VALUE_LIMIT])
        for name, value in sorted(env.items())
        if name in NAMES or name.startswith(PREFIXES)
    }
