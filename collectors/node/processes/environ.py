"""What a process's environment says about its rank, and the little of it that may leave the node.

An environment holds secrets. It is read here, on the node; only names on the list below are sent, and among those the
value of every name that sounds like a secret is blotted out.
"""

from __future__ import annotations

import re
from typing import Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from collectors.node import redact
from collectors.node.files import text
from collectors.samples.location import HOST_VARIABLES

PREFIXES = (
    "NCCL_", "TORCH_", "TORCHELASTIC_", "GLOO_", "CUDA_", "UCX_", "FI_", "SLURM_", "OMPI_", "PMI_", "MASTER_", "PET_",
)  # fmt: skip
"""Beginnings of the names that may leave the node: rank and launcher, and what the communication libraries read."""

NAMES = frozenset(
    (
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE",
        "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE", "MPI_LOCALRANKID",
        "OMP_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "NVIDIA_VISIBLE_DEVICES",
        "ACCELERATE_DISABLE_NCCL", "PYTHONFAULTHANDLER", "PMIX_RANK", "PALS_RANKID", "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JOB_COMPLETION_INDEX",
        "SLURMD_NODENAME", "KUBERNETES_SERVICE_HOST", *HOST_VARIABLES,
    )
)  # fmt: skip
"""Further names, exactly."""

SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|JWT|(?:^|_)(?:AUTH|PASS|PWD|PAT)(?:_|$)|KEY(?:_|S|$)"
)
"""Names whose value is blotted out even when they are on the list."""

NO_RANK = -1
"""Stands where the number of a rank is not known."""

VALUE_LIMIT = 1024
"""Characters of one value that are sent."""


class RankEnvironment(NamedTuple):
    """Which rank an environment makes of its process."""

    rank: int
    """:data:`NO_RANK` where nothing tells it."""
    world_size: Optional[int]
    local_rank: Optional[int]
    local_world_size: Optional[int]
    node_rank: Optional[int]
    master_addr: str
    master_port: Optional[int]
    launcher: str
    """``torchrun``, ``slurm``, ``mpi``, ``jax``, ``kubernetes``, ``lightning`` or ``env``; empty without a number."""
    run_id: str
    restart: Optional[int]
    assigned: bool
    """True when a launcher gave it to this one process; False for what a whole node or pod shares."""


def parse(data: bytes) -> Dict[str, str]:
    """Names and values of /proc/PID/environ. A name that comes twice has its first value, as getenv sees it."""
    found: Dict[str, str] = {}
    for entry in data.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name:
            found.setdefault(text(name), text(value))
    return found


def may_have_rank(data: bytes) -> bool:
    """Cheap look at a raw environment: False proves that no rank is in it."""
    return b"RANK=" in data or b"SLURM_PROCID=" in data or b"PALS_RANKID=" in data or b"JAX_PROCESS_ID=" in data


def rank_of(env: Mapping[str, str]) -> Optional[RankEnvironment]:
    """Rank that an environment tells; None when it tells none.

    By torch's names, else those of MPI, of Slurm, of JAX; at last by what Lightning gives to the processes that it
    starts, which is a local rank and the number of the node.
    """
    torchrun = "TORCHELASTIC_RUN_ID" in env
    rank, world = _number(env, "RANK"), _number(env, "WORLD_SIZE")
    local = _number(env, "LOCAL_RANK")
    launcher, assigned = ("torchrun" if torchrun else "env"), torchrun or local is not None
    if rank is None or world is None:
        rank, world = _first(env, _MPI)
        launcher, assigned = "mpi", True
    if rank is None:
        rank, world = _first(env, _SLURM)
        launcher, assigned = "slurm", False
        if "SLURM_STEP_ID" not in env and "SLURM_STEPID" not in env and (world or 1) > 1:
            return None  # the batch script itself, which Slurm numbers 0 as well
    if rank is None:
        rank, world = _first(env, _PMIX)
        launcher = "mpi"
    if rank is None:
        rank, world = _first(env, _JAX)
        launcher, assigned = "jax", True
    if rank is None and _number(env, "GROUP_RANK", "NODE_RANK") == 0 and _number(env, "WORLD_SIZE") is not None:
        # on further nodes it needs the number of processes a node, which Lightning keeps to itself
        rank, world = local, _number(env, "WORLD_SIZE")
        launcher, assigned = "lightning", True
    if rank is None:
        return None
    if launcher == "env":
        launcher = _launcher(env, rank)
    return environment_of(env, rank, world, launcher, assigned=assigned)


def unnumbered(env: Mapping[str, str]) -> RankEnvironment:
    """What an environment tells of a process of a job beside its number."""
    return environment_of(env, NO_RANK, _number(env, "WORLD_SIZE"), "", assigned=False)


def late_rank(env: Mapping[str, str], library: str) -> Optional[RankEnvironment]:
    """Rank of a process that is of a job by what it has mapped: fewer words will do than for any process.

    ``RANK`` without a size (a script gives that to ``init_process_group`` itself); and what JAX is started with.
    """
    found = rank_of(env)
    if found is not None:
        return found
    rank = _number(env, "RANK")
    if rank is not None:
        return environment_of(env, rank, None, "env", assigned=True)
    return _rank_of_jax(env) if library == "jax" else None


def _rank_of_jax(env: Mapping[str, str]) -> Optional[RankEnvironment]:
    """Number of a process of JAX by what scripts and clusters hand to ``jax.distributed.initialize``.

    A pair of variables with one beginning (``PROCESS_ID`` and ``NUM_PROCESSES``: AXLearn); ``NODE_RANK`` and ``NNODES``
    beside ``JAX_COORDINATOR_IP`` (MaxText on GPUs); a host of a TPU slice (jax/_src/clusters/cloud_tpu_cluster.py); the
    index of a pod in an indexed job.
    """
    for name in sorted(env):
        found = _OF_A_PROCESS.match(name)
        if found is None:
            continue
        rank = _number(env, name)
        size = _number(env, *(found.group(1) + count for count in _OF_ALL))
        if rank is not None and size is not None and rank < size:
            return environment_of(env, rank, size, "env", assigned=True)
    rank, size = _number(env, "NODE_RANK"), _number(env, "NNODES")
    if "JAX_COORDINATOR_IP" in env and rank is not None and size is not None and rank < size:
        return environment_of(env, rank, size, "env", assigned=True)
    hosts = (env.get("TPU_PROCESS_ADDRESSES") or env.get("TPU_WORKER_HOSTNAMES") or "").split(",")
    rank, slices = _number(env, "TPU_WORKER_ID"), _number(env, "MEGASCALE_NUM_SLICES") or 1
    of_slice = _number(env, "MEGASCALE_SLICE_ID") or 0
    if rank is not None and rank < len(hosts) and of_slice < slices and len(hosts) * slices > 1:
        return environment_of(env, rank + of_slice * len(hosts), len(hosts) * slices, "env", assigned=True)
    rank = _number(env, "JOB_COMPLETION_INDEX")
    return None if rank is None else environment_of(env, rank, None, "kubernetes", assigned=False)


def environment_of(
    env: Mapping[str, str], rank: int, world: Optional[int], launcher: str, *, assigned: bool
) -> RankEnvironment:
    """The rank together with what the environment says beside it."""
    return RankEnvironment(
        rank=rank,
        world_size=world,
        local_rank=_number(env, "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"),
        local_world_size=_number(env, "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"),
        node_rank=_number(env, "GROUP_RANK", "NODE_RANK", "PET_NODE_RANK", "SLURM_NODEID"),
        master_addr=env.get("MASTER_ADDR", ""),
        master_port=_number(env, "MASTER_PORT"),
        launcher=launcher,
        run_id=env.get("TORCHELASTIC_RUN_ID") or env.get("SLURM_JOB_ID", ""),
        restart=_number(env, "TORCHELASTIC_RESTART_COUNT"),
        assigned=assigned,
    )


_MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
)  # fmt: skip
_PMIX = (("PMIX_RANK", "OMPI_COMM_WORLD_SIZE"), ("PALS_RANKID", "PALS_SIZE"))
_OF_A_PROCESS = re.compile(r"((?:[A-Z0-9]+_)*)PROC(?:ESS)?_(?:ID|INDEX)$")
_OF_ALL = ("NUM_PROCESSES", "NUM_PROCS", "PROCESS_COUNT")
_JAX = (("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),)
_SLURM = (
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), ("SLURM_PROCID", "SLURM_NTASKS"), ("SLURM_PROCID", "SLURM_NPROCS"),
)  # fmt: skip


def _first(env: Mapping[str, str], names: Sequence[Tuple[str, str]]) -> Tuple[Optional[int], Optional[int]]:
    """First pair of rank and size of which both are there; else the first rank alone."""
    alone: Optional[int] = None
    for rank_name, size_name in names:
        rank, size = _number(env, rank_name), _number(env, size_name)
        if rank is not None and size is not None:
            return rank, size
        alone = rank if alone is None else alone
    return alone, None


def _launcher(env: Mapping[str, str], rank: int) -> str:
    """Who started a process that has torch's names but not torchrun's: the one whose own number agrees."""
    if rank in (_number(env, "OMPI_COMM_WORLD_RANK"), _number(env, "PMI_RANK")):
        return "mpi"
    return "slurm" if _number(env, "SLURM_PROCID") == rank else "env"


def _number(env: Mapping[str, str], *names: str) -> Optional[int]:
    """First of these variables that holds a whole number of at least 0."""
    for name in names:
        value = env.get(name, "")
        if value.isascii() and value.isdigit() and len(value) < 10:
            return int(value)
    return None


def presentable(env: Mapping[str, str]) -> Dict[str, str]:
    """The part of an environment that may leave the node, secrets blotted out.

    Launchers keep command lines and other variables in values: ``OMPI_ARGV``, ``OMPI_MCA_mca_base_env_list``,
    ``SLURM_EXPORT_ENV``.
    """
    return {
        name: redact.REDACTED if SECRET.search(name.upper()) else redact.within(value[:VALUE_LIMIT])
        for name, value in sorted(env.items())
        if name in NAMES or name.startswith(PREFIXES)
    }


def presentable_command(words: Sequence[str], limit: int = 2048) -> str:
    """A command line as one text, its secrets blotted out."""
    return redact.command(words, limit)
