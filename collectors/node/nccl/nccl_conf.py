"""What NCCL reads beside the environment: ``~/.nccl.conf`` (or the file of NCCL_CONF_FILE), then ``/etc/nccl.conf``.

As ``src/misc/param.cc`` of NCCL 2.10 to 2.32 does it: lines ``NAME=VALUE``, those that begin with ``#`` left out,
nothing trimmed; a name that is set already keeps its value, so the environment comes before both files and the first
line of a name before later ones. The home is that of the password database, not ``$HOME``. NCCL_CONF_FILE came with
2.23.
"""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, Optional

from collectors.node.files import read_named, text
from collectors.node.processes import environ
from collectors.node.processes.rooted import seen_by
from collectors.node.shared import ConfLine
from collectors.samples.ranks import RankProcess

SYSTEM = "/etc/nccl.conf"
USER = ".nccl.conf"
LONGEST = 1023
"""Characters of a name or of a value that NCCL takes."""
LIMIT = 1 << 20


def settings(rank: RankProcess, proc: str = "/proc") -> Dict[str, ConfLine]:
    """What these files set for a rank, as far as it may leave the node; read through its own root."""
    found: Dict[str, ConfLine] = {}
    for file in _files(rank, proc):
        data = read_named(seen_by(rank.pid, file, proc), rank.uid, LIMIT)
        for name, value in lines(text(data or b"")).items():
            found.setdefault(name, ConfLine(value, file))
    shown = environ.presentable({name: setting.value for name, setting in found.items()})
    return {name: ConfLine(value, found[name].file) for name, value in shown.items()}


def lines(said: str) -> Dict[str, str]:
    """Names and values of one file."""
    found: Dict[str, str] = {}
    for line in said.split("\n"):
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name[:LONGEST], value[:LONGEST])
    return found


def merged(rank: RankProcess, conf: Mapping[str, ConfLine]) -> RankProcess:
    """The rank with what the files add to its environment; itself where they add nothing."""
    added = {name: setting for name, setting in conf.items() if name not in rank.env}
    if not added:
        return rank
    env = {**rank.env, **{name: setting.value for name, setting in added.items()}}
    files = {**rank.conf, **{name: setting.file for name, setting in added.items()}}
    return rank._replace(env=dict(sorted(env.items())), conf=dict(sorted(files.items())))


def _files(rank: RankProcess, proc: str) -> List[str]:
    named = rank.env.get("NCCL_CONF_FILE", "")
    if named:
        return [named if named.startswith("/") else "%s/%s" % (rank.cwd, named), SYSTEM]
    home = _home(rank, proc)
    return [*([os.path.join(home, USER)] if home else []), SYSTEM]


def _home(rank: RankProcess, proc: str) -> Optional[str]:
    """Home by the rank's own /etc/passwd; a name service may hang, and is not asked."""
    for line in text(read_named(seen_by(rank.pid, "/etc/passwd", proc), rank.uid) or b"").splitlines():
        fields = line.split(":")
        if len(fields) > 5 and fields[2] == str(rank.uid) and fields[5].startswith("/"):
            return fields[5]
    return None
