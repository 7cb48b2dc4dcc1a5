"""The log of torch's ``nccl2`` backend (opt-in from 2.14): its own words for a collective that timed out.

Lines of ``torch/csrc/distributed/c10d/nccl2/ProcessGroupNCCLUtils.cpp``: ``[TC][rank=3][name=default_pg] Aborting
process due to timeout on rank 3 - timeout watchdog detected operation timeout``. The rank is that within the group.
"""

from __future__ import annotations

from typing import Iterator

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said

_PREFIX = re.compile(r"\[TC\]\[rank=(?P<rank>\d{1,7})\](?:\[name=(?P<name>[^\]]{0,120})\])?")
_ABORTING = re.compile(
    r"Aborting process due to (?P<why>timeout|error) on rank (?P<rank>\d{1,7})(?: ?[-:] ?(?P<what>[^\r\n]{0,300}))?"
)
_ASYNC = re.compile(r"(?:nccl )?hit async error: (?P<error>[^\r\n]{0,200})")


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    aborting = _ABORTING.search(text)
    prefix = _PREFIX.search(text)
    if aborting is None or (prefix is None and "watchdog" not in text and "async error" not in text):
        return
    data: Data = {"group_rank": int(aborting.group("rank"))}
    if prefix is not None and prefix.group("name"):
        data["group_name"] = prefix.group("name")
    if aborting.group("why") == "timeout":
        yield Said("torch.watchdog_timeout", data)
        return
    told = _ASYNC.search(text)
    error = (told.group("error") if told is not None else aborting.group("what") or "").strip()
    yield Said("torch.watchdog_error", dict(data, error=error, consequence="remote" in error))


FAMILY = Family("tc", (b"Aborting process due to ",), read)
