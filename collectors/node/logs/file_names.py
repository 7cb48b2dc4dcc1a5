"""Guesses rank, local rank and host from the name of a log file."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional

_ELASTIC = r"/attempt_\d+/(?P<local>\d+)/std(?:out|err)\.log$"
_RANKS = (
    r"(?i)(?:^|[^a-z])(?:(?:global_?)?rank|proc(?:ess)?|worker|task)[-_.= ]?(?P<rank>\d{1,6})(?!\d)[^/]*$",
    # a rank's folder with its streams; other files in a folder ``rank_16`` may belong to a LoRA adapter
    r"(?i)(?:^|/)(?:global_?)?rank[-_.=]?(?P<rank>\d{1,6})/(?:logs?/)?std(?:out|err)(?:\.\w{1,5})?$",
    r"(?:^|[-_/])(?<!slurm-)(?:slurm-\d{3,}[-.]|\d{3,}[-_.])(?P<rank>\d{1,5})\.(?:out|err|log)$",
)
"""Positions of the rank; sbatch's default name for the log of an array job contains no rank."""
_LOCAL = r"(?i)(?:^|[^a-z])local_?rank[-_.= ]?(?P<local>\d{1,4})(?!\d)"
_NCCL = r"(?i)nccl[\w-]{0,64}[._-](?P<host>[A-Za-z][\w-]{0,63})[._-][1-9]\d{1,8}(?!\d)"
_NODE = (
    r"(?i)(?:^|[/._-])(?<!single[/._-])(?<!multi[/._-])(?<!per[/._-])(?P<node>(?:(?:node|host|gpu|worker)[-_]?\d{1,9}"
    r"|(?:node|host|gpu|ip|worker|compute|dgx|hgx|algo)[-_]?[\w-]{0,63}?\d{1,9}(?:-(?!20\d\d-\d)(?:[a-z]{0,3}\d{1,5}))*))"
    r"(?=[/._-]|$)"
)


class Hints(NamedTuple):
    """The writer of a file according to its path; None and empty when unknown."""

    rank: Optional[int] = None
    local_rank: Optional[int] = None
    host: str = ""


def hints(path: str) -> Hints:
    """Hints of one path. A label in a line, or the process that holds the file open, takes precedence."""
    name, nodes = os.path.basename(path), re.findall(_NODE, path)
    nccl, local = re.search(_NCCL, name), re.search(_ELASTIC, path) or re.search(_LOCAL, name)
    rank = None if local is not None else next(filter(None, (re.search(pattern, path) for pattern in _RANKS)), None)
    return Hints(
        rank=int(rank.group("rank")) if rank is not None else None,
        local_rank=int(local.group("local")) if local is not None else None,
        host=nccl.group("host") if nccl is not None else nodes[-1] if nodes else "",
    )
