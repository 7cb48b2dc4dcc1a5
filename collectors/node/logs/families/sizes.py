"""How many ranks a job has, as frameworks print it when they start (``job.size``), and Lightning's ranks that join."""

from __future__ import annotations

from typing import Iterator

from collectors.node import late_re as re
from collectors.node.logs.said import Family, Said

_SIZE = re.compile(
    r"(?<![\w.-])(?:(?:global |using )?(?:WORLD_SIZE|world[_ ]size)['\"]?\s{0,3}[:=]\s{0,3}(?P<world>\d{1,6})\b"
    r"|MEMBER: \d{1,6}/(?P<members>\d{1,6})\b"
    r"|Starting with (?P<processes>\d{1,6}) processes"
    r"|Completed store-based barrier for key:\S{1,80} with (?P<nodes>\d{1,6}) nodes)"
    r"|\[Gloo\] Rank \d{1,6} is connected to \d{1,6} peer ranks\. [^\r\n]{0,60}? is : (?P<peers>\d{1,6})"
)
"""Torch calls ranks nodes, and says so of smaller groups, too. The last is gloo's own, of each of its groups of all
ranks or of fewer, when it has come up."""
_JOINS = re.compile(r"\bGLOBAL_RANK: (?P<rank>\d{1,6}), MEMBER: \d{1,6}/\d{1,6}\b")
"""What each rank of Lightning's says before it waits for the others."""


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    found = _SIZE.search(text)
    if found is not None:
        peers = found.group("peers")
        size = int(peers) + 1 if peers else int(next(group for group in found.groups() if group is not None))
        if size > 1:
            yield Said("job.size", {"size": size})
        joins = _JOINS.search(text)
        if joins is not None:
            yield Said("job.joining", {"size": size}, rank=int(joins.group("rank")))
        elif found.group("processes"):
            yield Said("job.joined", {"size": size})


FAMILY = Family(
    "sizes",
    (
        b"WORLD_SIZE",
        b"orld_size",
        b"orld size",
        b"MEMBER: ",
        b"tarting with ",
        b"store-based barrier for",
        b" peer ranks. Expected",
    ),
    read,
)
