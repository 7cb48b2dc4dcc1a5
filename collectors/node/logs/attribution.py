"""Whose an event is: the rank, host and process that a line names, where no label in front of it told.

:mod:`prefixes` takes known labels off a line. This reads what is left of them, in any form: a loguru field
(``| rank=3 |``), a key of logfmt, SGLang's ``TP3`` in the brackets of the time, NCCL's ``host:pid:tid [dev]``.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from collectors.node.logs.rule import ParsedEvent, number

FRONT = 200
"""Characters of a line within which a word of rank or host is taken for a label."""
OF_ONE_PROCESS = (
    "python.", "process.", "torch.cuda_error", "torch.out_of_memory", "torch.worker_died", "host.", "log.error",
    "gpu.unseen", "engine.", "torch.address_in_use",
)  # fmt: skip
"""Kinds of events of one process. Watchdogs, NCCL and launchers name ranks that may be a group's, or another's."""
_RANK = re.compile(
    r"(?i)(?<![A-Za-z0-9.])(?:(?P<before>[a-z]{1,12})[ _-])?(?:mpi|pt|dist|world|global)?[ _-]?rank[ _:=#\"'-]{0,4}"
    r"\[?(?P<rank>\d{1,6})(?:/\d{1,6}|of\d{1,6})?(?![\w.])"
)
_OTHERS = frozenset(
    "local node group machine from to peer src dst with by per of next prev previous source remote tp pp dp cp ep sp"
    " root target waiting for max min num tensor pipeline data".split()
)
"""Words in front of ``rank`` that make it somebody else's, or another count."""
_TENSOR = re.compile(r"(?:^|[\[( _])(?:(?:DP|PP)0[ _])*TP(\d{1,4})(?:[ _](?:DP|PP|EP)0)*[\]) ]")
"""The place in a tensor-parallel group, which is the rank where there is no other axis."""
_NCCL = re.compile(
    r"(?!\d\d:\d\d:\d\d\b)(?P<host>[^\s:\[\]()\"']{1,64}):(?P<pid>\d{1,10}):\d{1,10}(?P<device> \[\d+\])?(?![.:\d])"
)
"""``host:pid:tid [cudaDev]`` in front of NCCL's records; a time of day looks like it."""


class Origin(NamedTuple):
    """What is known of who wrote a line."""

    rank: Optional[int] = None
    host: str = ""
    pid: Optional[int] = None


def of_event(event: ParsedEvent, text: str, label: Origin) -> Origin:
    """Whose an event is: by its own word, by the label that was taken off its line, else by the line's front."""
    rank = event.rank if event.rank is not None else label.rank
    pid = event.pid if event.pid is not None else label.pid
    host, front = event.host or label.host, text.partition("\n")[0][:FRONT]
    of_nccl = event.kind.startswith("nccl.")
    if not of_nccl and not event.kind.startswith(OF_ONE_PROCESS):
        return Origin(rank, host, pid)
    said = _NCCL.search(front) if of_nccl else _NCCL.match(front)
    if said is not None and (of_nccl or said.group("device")):
        host, pid = host or said.group("host"), number(said.group("pid")) if pid is None else pid
    return Origin(rank_of(front) if rank is None and not of_nccl else rank, host, pid)


def rank_of(text: str) -> Optional[int]:
    """The one rank that a text names as its own; None where it names none or several."""
    found = {
        number(match.group("rank"))
        for match in _RANK.finditer(text)
        if (match.group("before") or "").lower() not in _OTHERS
    }
    tensor = None if found else _TENSOR.search(text[:80])
    return found.pop() if len(found) == 1 else None if tensor is None else number(tensor.group(1))
