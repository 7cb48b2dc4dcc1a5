"""The rank of a process by files that it has open: the pipe of torch's flight recorder, and the log of Ray Train.

Workers of Ray Train have logs of JSON with ``world_rank`` in their lines (ray/train/v2/_internal/logging); such a log
is read through the worker's own descriptor.
"""

from __future__ import annotations

import json
import os
import re
from typing import AbstractSet, Dict, Mapping, Optional

from collectors.node.files import link, list_folder, named_file, text
from collectors.node.processes.procfs import read_status

LIMIT = 64 << 10
"""Bytes that are read of a log, the last ones."""
LARGEST = 1 << 20

_TRAIN = re.compile(r"/logs/train/ray-train-(?:sys|app)-worker-[0-9a-f]{56}\.log$")


def ray_train_ranks(pids: AbstractSet[int], proc: str = "/proc") -> Dict[int, int]:
    """Ranks by pid of the workers of Ray Train among these processes; none of two that would have one rank."""
    found = {pid: rank for pid in pids for rank in [_ray_train_rank(pid, proc)] if rank is not None}
    taken = list(found.values())
    return {pid: rank for pid, rank in found.items() if taken.count(rank) == 1}


def _ray_train_rank(pid: int, proc: str) -> Optional[int]:
    folder = "%s/%d/fd" % (proc, pid)
    for name in list_folder(folder):
        place = "%s/%s" % (folder, name)
        status = read_status(proc, pid) if _TRAIN.search(link(place)) else None
        rank = None if status is None else _world_rank(_end_of(place, status.uid))
        if rank is not None:
            return rank
    return None


def _world_rank(data: bytes) -> Optional[int]:
    """``world_rank`` of the last line that has one."""
    for line in reversed(data.splitlines()):
        if b'"world_rank"' not in line:
            continue
        try:
            entry = json.loads(text(line))
        except (ValueError, RecursionError):
            continue  # the first line of a part is a torn one
        rank = entry.get("world_rank") if isinstance(entry, dict) else None
        if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < LARGEST:
            return rank
    return None


def _end_of(path: str, uid: int) -> bytes:
    """The end of a regular file that this user, who is the owner of the process, may read."""
    try:
        file = named_file(path, uid)
    except OSError:
        return b""
    try:
        return os.pread(file, LIMIT, max(0, os.fstat(file).st_size - LIMIT))
    except OSError:
        return b""
    finally:
        os.close(file)


def rank_of_pipe(proc: str, pid: int, env: Mapping[str, str]) -> Optional[int]:
    """Rank by the pipe that torch's flight recorder listens on, ``<stem><rank>.pipe`` (FlightRecorder.hpp)."""
    stem = env.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "")
    folder = "%s/%d/fd" % (proc, pid)
    for descriptor in list_folder(folder) if stem else ():
        path = link(folder + "/" + descriptor)
        number = path[len(stem) : -len(".pipe")]
        if path.startswith(stem) and path.endswith(".pipe") and number.isdecimal() and len(number) < 8:
            return int(number)
    return None
