"""Paddle: the container of a rank that failed, the trainers that were aborted, and which rank a process is.

``paddle.distributed.launch`` up to 2.2 (``launch_utils.watch_local_trainers``) and later (``Container``).
"""

from __future__ import annotations

from typing import Iterator

from collectors.node import late_re as re
from collectors.node.logs.lines import signals
from collectors.node.logs.said import Data, Family, Said, number

_CONTAINER = re.compile(
    r"Container rank (?P<rank>\d{1,5}) status failed cmd \[[^\]]{0,4000}(?:\] code (?P<code>-?\d{1,4})|$)"
)
_ABORTED = re.compile(
    r"ABORT!!! Out of all \d{1,6} trainers, the trainer process with rank=\[(?P<ranks>[\d, ]{1,400})\]"
)
_CONTEXT = re.compile(
    r"init nccl context nranks: (?P<size>\d{1,6}) local rank: (?P<rank>\d{1,6}) (?:gpu|dev) id: \d{1,5}"
    r"(?: ring id: 0)?\s*$"
)
"""What it calls local is the place among all trainers (``ParallelEnv().rank``) in the ring of all, number 0."""
_MOST = 64
"""Ranks of one line that are told."""


def read(text: str) -> Iterator[Said]:
    """Events of one line: one a rank."""
    container, aborted, context = _CONTAINER.search(text), _ABORTED.search(text), _CONTEXT.search(text)
    if container is not None:
        data: Data = {"launcher": "paddle", "task": number(container.group("rank"))}
        if container.group("code") is None:
            data["reason"] = "status failed"  # the line is cut off in its command
        else:
            data["exitcode"] = code = number(container.group("code"))
            named = signals.of_exit(code)
            if named:
                data["signal"] = named
        yield Said("launcher.exit", data)
    elif aborted is not None:
        for rank in map(number, aborted.group("ranks").split(",")[:_MOST]):
            yield Said("launcher.exit", {"launcher": "paddle", "task": rank, "reason": "aborted"}, rank=rank)
    elif context is not None:
        yield Said("paddle.rank", {"size": number(context.group("size"))}, rank=number(context.group("rank")))


FAMILY = Family("paddle", (b"Container rank ", b"trainer process with rank=", b"init nccl context nranks: "), read)
