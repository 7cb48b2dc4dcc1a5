"""What the name of a log file tells: rank, local rank, host, stream."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional

_ELASTIC = re.compile(r"/attempt_\d+/(?P<local>\d+)/(?P<stream>stdout|stderr)\.log$")
_RANKS = (
    re.compile(
        r"(?:^|[^a-z])(?:(?:global_?)?rank|proc(?:ess)?|worker|task)[-_.= ]?(?P<rank>\d{1,6})(?!\d)[^/]*$", re.I
    ),
    # a rank's folder, made for its streams; files of other names in a folder ``rank_16`` may be of an adapter
    re.compile(r"(?:^|/)(?:global_?)?rank[-_.=]?(?P<rank>\d{1,6})/(?:logs?/)?std(?:out|err)(?:\.\w{1,5})?$", re.I),
    re.compile(r"(?:^|[-_/])(?<!slurm-)(?:slurm-\d{3,}[-.]|\d{3,}[-_.])(?P<rank>\d{1,5})\.(?:out|err|log)$"),
)
"""Where the rank stands; sbatch's own name for the log of one job of an array has no rank."""
_LOCAL = re.compile(r"(?:^|[^a-z])local_?rank[-_.= ]?(?P<local>\d{1,4})(?!\d)", re.I)
_NCCL = re.compile(r"nccl[\w-]{0,64}[._-](?P<host>[A-Za-z][\w-]{0,63})[._-][1-9]\d{1,8}(?!\d)", re.I)
_NODE = re.compile(
    r"(?:^|[/._-])(?<!single[/._-])(?<!multi[/._-])(?<!per[/._-])(?P<node>(?:(?:node|host|gpu|worker)[-_]?\d{1,9}"
    r"|(?:node|host|gpu|ip|worker|compute|dgx|hgx|algo)[-_]?[\w-]{0,63}?\d{1,9}(?:-(?!20\d\d-\d)(?:[a-z]{0,3}\d{1,5}))*))"
    r"(?=[/._-]|$)",
    re.I,
)
_STREAMS = (("stderr", (".err", "stderr.log", ".stderr")), ("stdout", (".out", "stdout.log", ".stdout")))


class Hints(NamedTuple):
    """What a path says about who wrote the file; None and empty where it says nothing."""

    rank: Optional[int] = None
    local_rank: Optional[int] = None
    host: str = ""
    stream: str = ""


def hints(path: str) -> Hints:
    """Hints of one path. They are guesses: a label in a line, or the owner of an open file, knows better."""
    name = os.path.basename(path)
    nodes = _NODE.findall(path)
    host = nodes[-1] if nodes else ""
    elastic = _ELASTIC.search(path)
    if elastic is not None:
        return Hints(local_rank=int(elastic.group("local")), host=host, stream=elastic.group("stream"))
    nccl, local = _NCCL.search(name), _LOCAL.search(name)
    rank = None if local is not None else next(filter(None, (pattern.search(path) for pattern in _RANKS)), None)
    lowered = name.lower()
    stream = next((stream for stream, endings in _STREAMS if lowered.endswith(endings)), "")
    return Hints(
        rank=int(rank.group("rank")) if rank is not None else None,
        local_rank=int(local.group("local")) if local is not None else None,
        host=nccl.group("host") if nccl is not None else host,
        stream="nccl" if "nccl" in lowered else stream,
    )
