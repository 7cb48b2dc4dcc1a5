"""The rank of a process by files that it has open: the pipe of torch's flight recorder, and the logs of a Ray worker.

A worker of Ray writes to ``logs/worker-<worker id>-<job id>-<pid>.{out,err}`` of its session's folder (Ray's user
guide, "Configuring Logging"), with lines such as ``:actor_name:Trainer(rank=1)``, which is the actor's ``__repr__``.
Workers of Ray Train, in its second version, have logs of JSON with ``world_rank`` in their lines
(ray/train/v2/_internal/logging). Each file is read through the worker's own descriptor.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from typing import AbstractSet, Dict, List, Mapping, Optional

from collectors.node.files import link, list_folder, named_file, read_or_none, text
from collectors.node.processes.procfs import parse_status

LIMIT = 64 << 10
"""Bytes that are read of a log: of Ray Train's the last ones, of others the first."""
LARGEST = 1 << 20

_OUTPUT = re.compile(r"/logs/worker-[0-9a-f]{56}-[0-9a-f]{8}-\d+\.(?:out|err)$")
_TRAIN = re.compile(r"/logs/train/ray-train-(?:sys|app)-worker-[0-9a-f]{56}\.log$")
_NAME = re.compile(r"^:actor_name:([^\n]{1,200})$", re.MULTILINE)
_RANK = re.compile(r"(?<![a-z])([a-z]{0,24})[ _-]?rank[ _:=#-]{0,3}(\d{1,6})(?!\d)", re.IGNORECASE)
_OF_A_GROUP = frozenset(
    (
        "local", "node", "group", "host", "device", "tp", "pp", "dp", "cp", "sp", "ep", "mp", "etp", "edp", "dcp",
        "fsdp", "tensor", "pipeline", "data", "model", "context", "sequence", "expert", "parallel", "replica", "shard",
        "stage", "lora", "low",
    )
)  # fmt: skip
"""Words before "rank" that make it the number in something smaller than the job."""


def ray_ranks(pids: AbstractSet[int], proc: str = "/proc") -> Dict[int, int]:
    """Ranks by pid of those that are workers of Ray and whose logs say the rank; none where two would have one rank.

    Two Ray sessions on one node count as one job: their equal ranks are dropped.
    """
    found: Dict[int, int] = {}
    for pid in pids:
        rank = _ray_rank(pid, proc)
        if rank is not None:
            found[pid] = rank
    taken = Counter(found.values())
    return {pid: rank for pid, rank in found.items() if taken[rank] == 1}


def _ray_rank(pid: int, proc: str) -> Optional[int]:
    folder = "%s/%d/fd" % (proc, pid)
    train: List[str] = []
    outputs: List[str] = []
    for name in list_folder(folder):
        place = "%s/%s" % (folder, name)
        target = link(place)
        if _TRAIN.search(target):
            train.append(place)
        elif _OUTPUT.search(target):
            outputs.append(place)
    status = parse_status(read_or_none("%s/%d/status" % (proc, pid)) or b"", pid) if train or outputs else None
    if status is None:
        return None
    for place in train:
        rank = _world_rank(_part(place, status.uid, end=True))
        if rank is not None:
            return rank
    names = [name for place in outputs for name in _NAME.findall(text(_part(place, status.uid)))]
    ranks = {rank for rank in map(rank_in, names) if rank is not None}
    return ranks.pop() if len(ranks) == 1 else None


def rank_in(name: str) -> Optional[int]:
    """The number that a name calls a rank (``Trainer(rank=1)``, ``trainer_rank_3``); none of a node's or group's."""
    found = {int(number) for of, number in _RANK.findall(name) if of.lower() not in _OF_A_GROUP}
    return found.pop() if len(found) == 1 else None


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


def _part(path: str, uid: int, *, end: bool = False) -> bytes:
    """The beginning or the end of a regular file that this user, who is the owner of the process, may read."""
    try:
        file = named_file(path, uid)
    except OSError:
        return b""
    try:
        size = os.fstat(file).st_size
        return os.pread(file, LIMIT, max(0, size - LIMIT) if end else 0)
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
