"""Who this process is in its job: by torch where it knows, else by the launcher's variables."""

from __future__ import annotations

import os
import sys
from typing import Any, List, Mapping, Optional, Tuple

from hangtop.inside.page import OwnRank
from hangtop.inside.steps import telling

_NAMES = {
    "rank": ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"),
    "world_size": ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
    "local_rank": ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"),
}


def own_rank(env: Mapping[str, str] = os.environ) -> OwnRank:
    """Rank, size and local rank; -1 for what is not known."""
    told = {field: _first(env, names) for field, names in _NAMES.items()}
    distributed = distributed_now()
    if distributed is not None:
        told["rank"], told["world_size"] = distributed.get_rank(), distributed.get_world_size()
    return OwnRank(**told)


def identity(mesh: Any = None) -> str:
    """``rank 5 of 8, local rank 1, gpu04, cuda:1, mesh dp=1 tp=1``: this process in one line, printed and returned.

    ``mesh`` is a DeviceMesh whose coordinates are told; without one, none are.
    """
    own = own_rank()
    parts = [
        "rank %s of %s" % (_known(own.rank), _known(own.world_size)),
        "local rank %s" % _known(own.local_rank),
        os.uname().nodename,
        device(),
    ]
    coordinates = mesh_coordinates(mesh)
    if coordinates:
        parts.append("mesh " + " ".join("%s=%d" % pair for pair in coordinates))
    line = ", ".join(parts)
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError):
        telling.problem("standard output is closed")
    return line


def mesh_coordinates(mesh: Any) -> List[Tuple[str, int]]:
    """Name and coordinate of each dimension of a DeviceMesh; none where this rank is not in it."""
    try:
        place = None if mesh is None else mesh.get_coordinate()
    except Exception:  # noqa: BLE001 - of what is no mesh, and of one whose groups are gone, nothing is told
        place = None
    if place is None:
        return []
    names = mesh.mesh_dim_names or ["dim%d" % number for number in range(len(place))]
    return list(zip(names, place))


def device() -> str:
    """``cuda:1``, ``cpu``; asks torch only where it is imported and has started CUDA already."""
    torch = sys.modules.get("torch")
    if torch is None:
        return "torch not imported"
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return "cuda:%d" % torch.cuda.current_device()
    return "cpu" if not torch.cuda.is_available() else "cuda not started"


def distributed_now() -> Optional[Any]:
    """torch.distributed where it is imported and has a process group; None otherwise. Imports nothing."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def _known(number: int) -> str:
    return "?" if number < 0 else str(number)


def _first(env: Mapping[str, str], names: Tuple[str, ...]) -> int:
    for name in names:
        value = env.get(name, "")
        if value.isdecimal() and len(value) < 10:
            return int(value)
    return -1
