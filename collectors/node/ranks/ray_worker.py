"""Which rank a worker of Ray is, by the files that Ray and Ray Train write of it on its own node.

A worker writes to ``logs/worker-<worker id>-<job id>-<pid>.{out,err}`` of its session's folder (Ray's user guide,
"Configuring Logging"), and marks there whose words follow: ``:actor_name:Trainer``, or what the actor's ``__repr__``
says, such as ``:actor_name:Trainer(rank=1)``. Workers of Ray Train, in its second version, have logs of their own, of
JSON: ``world_rank`` is in each line that knows it (ray/train/v2/_internal/logging). All were looked at with Ray 2.60.
Each is a file that the worker has open, so that no path and no namespace is in the way, and nobody is asked.
"""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.files import link, list_folder, opened, regular, text

LIMIT = 64 << 10
"""Bytes that are read of a file: of Ray Train's logs the last ones, of others the first."""
LARGEST = 1 << 20

_OUTPUT = re.compile(r"/logs/worker-([0-9a-f]{56})-[0-9a-f]{8}-\d+\.(?:out|err)$")
_TRAIN = re.compile(r"/logs/train/ray-train-(?:sys|app)-worker-([0-9a-f]{56})\.log$")
_CORE = re.compile(r"/logs/python-core-worker-([0-9a-f]{56})_\d+\.log$")
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
_NODE = re.compile(r"\bnode_id=([0-9a-f]{56})\b")


class RayWorker(NamedTuple):
    """A worker by the files that it has open, each as ``/proc/PID/fd/N``."""

    session: str
    """Folder of the session, as the worker sees it."""
    worker_id: str
    outputs: List[str]
    train_logs: List[str]
    core_log: str
    """Empty where it has none open."""


def worker_of(pid: int, proc: str = "/proc") -> Optional[RayWorker]:
    """The worker that a process is; None for what is none of Ray's."""
    folder = "%s/%d/fd" % (proc, pid)
    targets: Dict[str, str] = {}
    for name in list_folder(folder):
        target = link("%s/%s" % (folder, name))
        if "/logs/" in target:
            targets.setdefault(target, "%s/%s" % (folder, name))
    session, worker_id = next(_whose(targets), ("", ""))
    if not worker_id:
        return None

    def of_it(pattern: "re.Pattern[str]") -> List[str]:
        found = ((pattern.search(target), place) for target, place in sorted(targets.items()))
        return [place for match, place in found if match is not None and match.group(1) == worker_id]

    return RayWorker(session, worker_id, of_it(_OUTPUT), of_it(_TRAIN), (of_it(_CORE) or [""])[0])


def _whose(paths: Iterable[str]) -> Iterator[Tuple[str, str]]:
    """(folder of the session, worker id) of each of these that is a worker's."""
    for path in paths:
        found = _OUTPUT.search(path) or _TRAIN.search(path)
        if found is not None:
            yield path[: found.start()], found.group(1)


def told_rank(worker: RayWorker, uid: int) -> Optional[int]:
    """The rank of the whole job that its files tell; ``uid`` is whose process it is. None where they tell none."""
    for path in worker.train_logs:
        rank = _world_rank(_part(path, uid, end=True))
        if rank is not None:
            return rank
    names = [name for path in worker.outputs for name in _NAME.findall(text(_part(path, uid)))]
    ranks = {rank for rank in map(rank_in, names) if rank is not None}
    return ranks.pop() if len(ranks) == 1 else None


def rank_in(name: str) -> Optional[int]:
    """The number that a name calls a rank (``Trainer(rank=1)``, ``trainer_rank_3``); none in a node or a group."""
    found = {int(number) for of, number in _RANK.findall(name) if of.lower() not in _OF_A_GROUP}
    return found.pop() if len(found) == 1 else None


def node_of(worker: RayWorker, uid: int) -> str:
    """Ray's name for the node that it runs on; empty where its log does not tell."""
    found = _NODE.search(text(_part(worker.core_log, uid))) if worker.core_log else None
    return found.group(1) if found else ""


def _world_rank(data: bytes) -> Optional[int]:
    """That of the last line that has one."""
    for line in reversed(data.splitlines()):
        if b'"world_rank"' not in line:
            continue
        try:
            said = json.loads(text(line))
        except (ValueError, RecursionError):
            continue  # the first line of a part is a torn one
        rank = said.get("world_rank") if isinstance(said, dict) else None
        if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < LARGEST:
            return rank
    return None


def _part(path: str, uid: int, *, end: bool = False) -> bytes:
    """The beginning or the end of a regular file that the owner of the process, or everybody, may read."""

    def may_be_read(found: os.stat_result) -> bool:
        return regular(found) and (uid in (0, found.st_uid) or bool(found.st_mode & stat.S_IROTH))

    try:
        file = opened(path, may_be_read)
    except OSError:
        return b""
    try:
        size = os.fstat(file).st_size
        return os.pread(file, LIMIT, max(0, size - LIMIT) if end else 0)
    except OSError:
        return b""
    finally:
        os.close(file)
