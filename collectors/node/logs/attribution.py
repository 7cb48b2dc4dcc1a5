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
_VERY_FRONT = 80
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
_TENSOR = re.compile(
    r"(?:^|[\[( _])(?P<name>(?:[A-Z]{2}\d{1,4}[ _]){0,3}TP(?P<tp>\d{1,4})(?:[ _][A-Z]{2}\d{1,4}){0,2})[\]) ]"
)
_OTHER_AXIS = re.compile(r"(?:DP|PP)[1-9]")
_NCCL = re.compile(
    r"(?!\d\d:\d\d:\d\d\b)(?P<host>[^\s:\[\]()\"']{1,64}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10})"
    r"(?: \[(?P<device>\d+)\])?(?![.:\d])"
)
"""``host:pid:tid [cudaDev]`` in front of NCCL's records; a time of day looks like it."""
_WORKER = re.compile(r"\(pid=\d{1,9}, ip=\[?(?P<host>[\w.:-]{1,60}?)\]?[,)]")
"""Where Ray's worker ran that raised, in the exception's message."""


class Origin(NamedTuple):
    """What a line tells of who wrote it."""

    rank: Optional[int] = None
    host: str = ""
    pid: Optional[int] = None


def of_event(event: ParsedEvent, text: str, rank: Optional[int], host: str, pid: Optional[int]) -> Origin:
    """Whose an event is: by its own word, by the label that was taken off its line, else by the line's front."""
    known = Origin(
        event.rank if event.rank is not None else rank, event.host or host, event.pid if event.pid is not None else pid
    )
    if event.kind.startswith("nccl."):
        prefix = _NCCL.search(text[:FRONT])
        if prefix is not None:
            pid = known.pid or number(prefix.group("pid"))
            known = known._replace(host=known.host or prefix.group("host"), pid=pid)
        return known
    if not event.kind.startswith(OF_ONE_PROCESS):
        return known
    named = of(text)
    ran = _WORKER.search(str(event.data.get("message", ""))[:600])
    return Origin(
        named.rank if known.rank is None else known.rank,
        known.host or named.host or ("" if ran is None else ran.group("host")),
        named.pid if known.pid is None else known.pid,
    )


def of(text: str) -> Origin:
    """Rank, host and process that the front of a line names."""
    front = text.partition("\n")[0][:FRONT]
    nccl = _NCCL.match(front)
    if nccl is None or not nccl.group("device"):
        return Origin(rank_of(front))
    return Origin(rank_of(front), nccl.group("host"), number(nccl.group("pid")))


def rank_of(text: str) -> Optional[int]:
    """The one rank that a text names as its own; None where it names none or several."""
    found = {
        number(match.group("rank"))
        for match in _RANK.finditer(text)
        if (match.group("before") or "").lower() not in _OTHERS
    }
    if found:
        return found.pop() if len(found) == 1 else None
    tensor = _TENSOR.search(text[:_VERY_FRONT])
    alone = tensor is not None and not _OTHER_AXIS.search(tensor.group("name"))
    return number(tensor.group("tp")) if tensor is not None and alone else None


def within_bounds(number: Optional[int], most: int) -> Optional[int]:
    """The number of a rank or a process; what is beyond the largest there can be is none."""
    return number if number is not None and -1 <= number <= most else None
