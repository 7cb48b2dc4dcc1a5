"""Rank of this process: from torch with a process group, else from the launcher's variables."""

from __future__ import annotations

import os
import sys
from typing import Any, Mapping, Optional, Tuple

from hangtop.inside.page import OwnRank

_NAMES = {
    "rank": ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"),
    "world_size": ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
    "local_rank": ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"),
}


def own_rank(env: Mapping[str, str] = os.environ) -> OwnRank:
    """Rank, world size and local rank; -1 if unknown."""
    told = {field: _first(env, names) for field, names in _NAMES.items()}
    distributed = distributed_now()
    if distributed is not None:
        told["rank"], told["world_size"] = distributed.get_rank(), distributed.get_world_size()
    return OwnRank(**told)


def distributed_now() -> Optional[Any]:
    """torch.distributed if it is imported and has a process group, else None. Imports nothing."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def _first(env: Mapping[str, str], names: Tuple[str, ...]) -> int:
    for name in names:
        value = env.get(name, "")
        if value.isdecimal() and len(value) < 10:
            return int(value)
    return -1
