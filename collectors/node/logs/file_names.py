"""What the name of a log file tells: rank, local rank, host, pid, stream."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional

_ELASTIC = re.compile(r"/attempt_(?P<attempt>\d+)/(?P<local>\d+)/(?P<stream>stdout|stderr|error)\.(?:log|json)$")
_RANK = re.compile(r"(?:^|[^a-z])(?:rank|global_?rank|proc(?:ess)?|worker|task)[-_.= ]?(?P<rank>\d{1,6})(?!\d)", re.I)
_OMPI = re.compile(r"/rank\.(?P<rank>\d{1,7})/std(?P<stream>out|err)$")
"""The folder of a rank that ``mpirun --output-filename`` makes."""
_FOLDER = re.compile(r"(?:^|/)(?:global_?)?rank[-_.=]?(?P<rank>\d{1,6})/(?:logs?/)?std(?:out|err)(?:\.\w{1,5})?$", re.I)
"""A rank's folder, made for its streams. Files of other names in a folder ``rank_16`` may be of an adapter."""
_LOCAL = re.compile(r"(?:^|[^a-z])local_?rank[-_.= ]?(?P<local>\d{1,4})(?!\d)", re.I)
_SLURM_TASK = re.compile(r"(?:^|[-_/])(?:slurm-)?\d{3,}[-_.](?P<rank>\d{1,5})\.(?:out|err|log)$")
_SLURM_ARRAY = re.compile(r"^slurm-\d+_\d+\.(?:out|err)$")
"""sbatch's own name for the log of one job of an array: each is a job by itself, and its number no rank's."""
_NCCL = re.compile(r"nccl[\w-]{0,64}[._-](?P<host>[A-Za-z][\w-]{0,63})[._-](?P<pid>[1-9]\d{1,8})(?!\d)", re.I)
_NODE = re.compile(
    r"(?:^|[/._-])(?<!single[/._-])(?<!multi[/._-])(?<!per[/._-])(?P<node>(?:node|host|gpu|ip|worker|compute|dgx|hgx|algo)[-_]?[\w-]{0,63}?\d{1,9})(?=[/._-]|$)",
    re.I,
)

_MORE = re.compile(
    r"(?:-(?!20\d\d-\d|(?:local|global|rank|proc|worker|task|pid|attempt|job|log|run|step|epoch)[-_]?\d)"
    r"[a-z]{0,12}\d{1,5}(?![A-Za-z\d]))+",
    re.I,
)
_PLAIN = re.compile(r"(?:node|host|gpu|worker)[-_]?\d{1,9}$", re.I)
"""Behind such a name a further number is a rank's, as a rule; others go on: ``ip-10-0-3-17``, ``compute-dy-p5-3``."""


class Hints(NamedTuple):
    """What a path says about who wrote the file; None and empty where it says nothing."""

    rank: Optional[int] = None
    local_rank: Optional[int] = None
    host: str = ""
    pid: Optional[int] = None
    stream: str = ""


def hints(path: str) -> Hints:
    """Hints of one path. They are guesses: a label in a line, or the owner of an open file, knows better."""
    elastic = _ELASTIC.search(path)
    if elastic is not None:
        return Hints(local_rank=int(elastic.group("local")), host=_host(path), stream=elastic.group("stream"))
    ompi = _OMPI.search(path)
    if ompi is not None:
        return Hints(rank=int(ompi.group("rank")), host=_host(path), stream="std" + ompi.group("stream"))
    name = os.path.basename(path)
    nccl = _NCCL.search(name)
    local = _LOCAL.search(name)
    rank = None
    if local is None and not _SLURM_ARRAY.match(name):
        rank = _RANK.search(name) or _FOLDER.search(path) or _SLURM_TASK.search(path)
    return Hints(
        rank=int(rank.group("rank")) if rank is not None else None,
        local_rank=int(local.group("local")) if local is not None else None,
        host=nccl.group("host") if nccl is not None else _host(path),
        pid=int(nccl.group("pid")) if nccl is not None else None,
        stream=_stream(name),
    )


def _host(path: str) -> str:
    found = ""
    for match in _NODE.finditer(path):
        found = match.group("node")
        more = None if _PLAIN.match(found) else _MORE.match(path, match.end())
        found += more.group() if more is not None else ""
    return found


def _stream(name: str) -> str:
    lowered = name.lower()
    if "nccl" in lowered:
        return "nccl"
    for stream, endings in (
        ("stderr", (".err", "stderr.log", ".stderr")),
        ("stdout", (".out", "stdout.log", ".stdout")),
    ):
        if lowered.endswith(endings):
            return stream
    return ""
