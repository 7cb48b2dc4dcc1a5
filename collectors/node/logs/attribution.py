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
_OF_CHILDREN = ("launcher.exit", "slurm.out_of_memory")
"""Launchers' words about others: the host is theirs, as a rule; a rank is told in a field of its own."""
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
_HOST = re.compile(
    r"(?i)(?<![\w.-])(?:host(?:name)?|node(?:[ _]?name)?|nodename|ip|pod)[\"']?(?: ?[=:]|(?<=ip)(?=[ \"'\d])) ?[\"']?"
    r"(?P<host>(?:\d{1,3}(?:\.\d{1,3}){3}|[a-z](?=[\w.-]{0,60}[0-9-])[\w.-]{1,80}))(?![\w(])"
)
_ON = re.compile(
    r"(?i)\b(?:on|at|from) (?:the |one |a )?(?:node|host|machine|worker|pod|server) [\"'`]?"
    r"(?P<host>[a-z](?=[\w.-]{0,60}[\d.-])[\w.-]{1,80})"
)
_BRACKETED = re.compile(
    r"(?i)^(?:\[[^\]\r\n]{1,30}\] ?){0,2}\[(?P<host>(?=[\w.-]{0,60}\d)(?:node|host|compute|dgx|hgx|ip-|n)[\w.-]{1,80})"
    r"(?:\]|[| ]r(?:ank)?)"
)
"""A machine's name in brackets: ``[node7] ``, ``[rank3][pid 4711][node7]``, ``[node7|rank3]``."""
_NCCL = re.compile(
    r"(?!\d\d:\d\d:\d\d\b)(?P<host>[^\s:\[\]()\"']{1,64}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10})"
    r"(?: \[(?P<device>\d+)\])?(?![.:\d])"
)
"""``host:pid:tid [cudaDev]`` in front of NCCL's records; a time of day looks like it."""
_LAST = re.compile(r"[ ,](?:global_)?rank=(?P<rank>\d{1,6})[})]?\s{0,4}$")
"""A logger's field at the end of a line."""
_KEY = re.compile(r"(?:^|[\s|,({\[])(?:global_|world_)?rank=(?P<rank>\d{1,6})(?=[\s|,)}\]:])")
"""A field of a logger; what torch and NCCL themselves write is never of this form."""
_PID = re.compile(r"(?i)(?<![\w])pid[ =:]{1,2}(?P<pid>\d{1,9})\b")
_WORKER = re.compile(r"\(pid=\d{1,9}, ip=\[?(?P<host>[\w.:-]{1,60}?)\]?[,)]")
"""Where Ray's worker ran that raised, in the exception's message."""
_RAYS = re.compile(r"\bray::[\w.<>]{1,120}\(\) " + _WORKER.pattern)
"""The same of the worker's own frames, that stand below it."""


class Origin(NamedTuple):
    """What a line tells of who wrote it."""

    rank: Optional[int] = None
    host: str = ""
    pid: Optional[int] = None


def of_ray(text: str) -> str:
    """Where the worker ran whose frames a text tells last: each waited for the next; empty where it tells of none."""
    told = [match.group("host") for match in _RAYS.finditer(text)]
    return told[-1] if told else ""


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
        if known.rank is None and event.kind.startswith(("torch.watchdog_", "gloo.", "torch.store_")):
            key = _KEY.search(text[:FRONT])
            known = known if key is None else known._replace(rank=number(key.group("rank")))
        children = event.kind in _OF_CHILDREN and not known.host
        return known._replace(host=of(text).host) if children else known
    named = of(text)
    ran = _WORKER.search(str(event.data.get("message", ""))[:600])
    return Origin(
        named.rank if known.rank is None and "about" not in event.data else known.rank,
        known.host or named.host or ("" if ran is None else ran.group("host")),
        named.pid if known.pid is None else known.pid,
    )


def of(text: str) -> Origin:
    """Rank, host and process that the front of a line names; the host also where it says ``on node n7``."""
    front = text.partition("\n")[0][:FRONT]
    nccl = _NCCL.match(front)
    if nccl is not None and nccl.group("device"):
        return Origin(rank_of(front), nccl.group("host"), number(nccl.group("pid")))
    host = _HOST.search(front) or _BRACKETED.match(front) or _ON.search(text[:1000])
    pid = _PID.search(front)
    rank = rank_of(front)
    last = _LAST.search(text[-40:]) if rank is None and "\n" not in text else None
    return Origin(
        rank if last is None else number(last.group("rank")),
        host.group("host").rstrip(".-") if host is not None else "",
        number(pid.group("pid")) if pid is not None else None,
    )


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
