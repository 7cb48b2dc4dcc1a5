"""Whose a line is, whatever the label: a rank, a host, a process that a logger or a launcher names in it.

:mod:`labels` knows the labels that are taken off a line. This reads what is left of them, in any dress: a loguru field
(``| rank=3 |``), a key of logfmt or JSON, a tuple in brackets, SGLang's ``TP3`` in the brackets of the time.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from collectors.node import late_re as re
from collectors.node.logs.said import Said, number

FRONT = 200
"""Characters of a line within which a word of rank or host is taken for a label."""
_VERY_FRONT = 80
"""Characters within which a short form counts."""
KINDS = (
    "python.", "process.", "torch.cuda_error", "torch.out_of_memory", "torch.worker_died", "host.", "log.error",
    "fabric.error", "gpu.unseen", "engine.", "torch.address_in_use",
)  # fmt: skip
"""Events of one process. Watchdogs, NCCL and launchers have readers of their own: their ranks may be a group's."""

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
_EXPERT = re.compile(r"^\(?(?:Vllm)?Worker_(?:DP\d{1,4}_)?(?:TP\d{1,4}_)?EP(?P<ep>\d{1,4})[ )]")
"""vLLM's worker: its number among the experts is its place among all data- and tensor-parallel ones."""
_OTHER_AXIS = re.compile(r"(?:DP|PP)[1-9]")
_HOST = re.compile(
    r"(?i)(?<![\w.-])(?:host(?:name)?|node(?:[ _]?name)?|nodename|ip|pod)[\"']?(?: ?[=:]|(?<=ip)(?=[ \"'\d])) ?[\"']?"
    r"(?P<host>(?:\d{1,3}(?:\.\d{1,3}){3}|[a-z](?=[\w.-]{0,60}[0-9-])[\w.-]{1,80}))(?![\w(])"
)
_ON = re.compile(
    r"(?i)(?:\bon|\bat|\bfrom) (?:the |one |a )?(?:node|host|machine|worker|pod|server) [\"'`]?"
    r"(?P<host>[a-z](?=[\w.-]{0,60}[\d.-])[\w.-]{1,80})"
)
_NAMED = re.compile(r"(?i)\b(?:on|at) (?:host|node|machine) (?P<host>[a-z][\w.-]{1,80})(?=[,;:)]|\s{0,4}$)")
_ADDRESS = re.compile(r"(?i)\bIP(?: address)?: (?P<host>\d{1,3}(?:\.\d{1,3}){3})\b")
_EXECUTOR = re.compile(r"\(TID \d{1,12}\) \((?P<host>[\w.-]{1,120}) executor (?:\d{1,6}|driver)\)")
"""Spark's executor, in front of what a task of it raised."""
_SHORT = re.compile(
    r"(?:^|[\[(|] ?)[rR](?P<bare>\d{1,5})(?=[\]):|])|(?:^|[\[(, ])r=(?P<key>\d{1,5})(?=[\]), ])"
    r"|^\[?proc (?P<proc>\d{1,5})[\]:]"
)
"""A rank by its first letter, ``[r3]``, ``r3:``, ``r=3``, or a number of a process, at the very front."""
_MACHINE = (
    r"(?:node|host|gpu|compute|worker|server|machine|dgx|hgx|nid|ip-|cn|gn|vm|pod|[ahbvt]\d{2,3}-|slurm|master|trainer)"
    r"[\w.-]{0,80}"
)
_BESIDE = re.compile(
    rf"(?i)(?<![\w.-])(?P<host>(?=[\w-]{{0,80}}\d){_MACHINE}) ?[|,:/ ] ?[\[(<]{{0,2}}(?:global[ _])?r(?:ank)?[ =:_#]?\d"
)
"""A machine's name in front of a rank: ``[node7 rank 3]``, ``node7 [rank3]``."""
_BRACKETED = re.compile(
    r"(?i)^(?:\[[^\]\r\n]{1,30}\] ?){0,2}\[(?P<host>(?=[\w.-]{0,60}\d)"
    r"(?:node|host|compute|dgx|hgx|nid|ip-|cn|gn)[\w.-]{1,80})\]"
)
"""A machine's name in brackets of its own: ``[node7] ``, ``[rank3][pid 4711][node7]``."""
_FILES = re.compile(
    r"^[\w./+-]{0,160}?(?:rank[_-]?(?P<named>\d{1,6})\.(?:log|err|out|txt|stderr|stdout)"
    r"|/(?P<folder>\d{1,6})/std(?:err|out)(?:\.log)?)(?:[:-]\d{1,9})?[:-]"
)
"""The file that ``grep`` puts in front: ``logs/rank3.log:17:``, ``attempt_0/3/stderr.log:``."""
_NCCLS = re.compile(
    r"^(?P<host>[A-Za-z][\w.-]{0,100}):(?P<pid>\d{1,9}):\d{1,9} \[\d{1,3}\] "
    r"|^(?:\[\d{1,12}\.\d{1,9}\] {1,4})?\[(?P<ucxs>[A-Za-z][\w.-]{0,100}):(?P<process>\d{1,9}):\d{1,9}(?::\d{1,9})?\] "
)
"""NCCL's own front: host, process, thread, GPU; and UCX's."""
_KEY = re.compile(r"(?:^|[\s|,({\[])(?:global_|world_)?rank=(?P<rank>\d{1,6})(?=[\s|,)}\]:])")
"""A field of a logger; what torch and NCCL themselves write is never of this form."""
_LAST = re.compile(r"[ ,](?:global_)?rank=(?P<rank>\d{1,6})[})]?\s{0,4}$")
"""The same as the last field of a line."""
_PROC = re.compile(
    r"(?i)\b(?:error|signal) \(proc (?P<rank>\d{1,6})\)|\bSignal \d{1,2} received by node (?P<node>\d{1,6}),"
)
"""GASNet's and Realm's number of a process among those of the job; Realm calls it a node."""
_PID = re.compile(r"(?i)(?<![\w])pid[ =:]{1,2}(?P<pid>\d{1,9})\b")


OF_LIBRARIES = ("torch.watchdog_", "gloo.", "torch.store_")
"""Words of libraries with ranks of their own; one that a logger puts in front as a field is the process's."""
OF_CHILDREN = frozenset({"launcher.exit", "slurm.out_of_memory"})
"""Words of launchers about others: the host is theirs, as a rule, a rank is told in fields of its own."""


_WORKER = re.compile(r"\(pid=\d{1,9}, ip=\[?(?P<host>[\w.:-]{1,60}?)\]?[,)]")
"""Where Ray's worker ran that raised, in the exception's message."""
_RAYS = re.compile(r"\bray::[\w.<>]{1,120}\(\) " + _WORKER.pattern)
"""The same of the worker's own frames, that stand below it."""


class Whose(NamedTuple):
    """What a line tells of who wrote it."""

    rank: Optional[int] = None
    host: str = ""
    pid: Optional[int] = None


def of_ray(text: str) -> str:
    """Where the worker ran whose frames a text tells last: each waited for the next; empty where it tells of none."""
    told = [match.group("host") for match in _RAYS.finditer(text)]
    return told[-1] if told else ""


def of_event(said: Said, text: str, rank: Optional[int], host: str, pid: Optional[int]) -> Whose:
    """Whose an event is: by its own word, by the label that was taken off its line, else by the line's front."""
    known = Whose(
        said.rank if said.rank is not None else rank, said.host or host, said.pid if said.pid is not None else pid
    )
    if not said.kind.startswith(KINDS):
        if known.rank is None and said.kind.startswith(OF_LIBRARIES):
            bare = said.kind == "torch.watchdog_error" and "group_rank" not in said.data and "[Rank " not in text
            known = known._replace(rank=rank_of(text[:FRONT]) if bare else _rank_by_key(text))
        if not known.host and said.kind.startswith(OF_LIBRARIES):
            beside = _BRACKETED.match(text) or _BESIDE.search(text[:_VERY_FRONT])
            known = known if beside is None else known._replace(host=beside.group("host").rstrip(".-"))
        return known if known.host or said.kind not in OF_CHILDREN else known._replace(host=of(text).host)
    named = of(text)
    at = _WORKER.search(str(said.data.get("message", ""))[:600])
    if at is not None and not named.host:
        named = named._replace(host=at.group("host"))
    return Whose(
        named.rank if known.rank is None and "about" not in said.data else known.rank,
        known.host or named.host,
        named.pid if known.pid is None else known.pid,
    )


def of(text: str) -> Whose:
    """Rank, host and process that the front of a line names; the host also where it says ``on node n7``."""
    front = text.partition("\n")[0][:FRONT]
    wide = text[:1000]
    nccls = _NCCLS.match(front)
    if nccls is not None:
        return Whose(
            rank_of(front),
            nccls.group("host") or nccls.group("ucxs"),
            number(nccls.group("pid") or nccls.group("process")),
        )
    host = _HOST.search(front) or _BESIDE.search(front[:_VERY_FRONT]) or _BRACKETED.match(front) or _ON.search(wide)
    host = _EXECUTOR.search(front) or host or _NAMED.search(wide) or _ADDRESS.search(wide)
    pid = _PID.search(front)
    rank = rank_of(front)
    last = _LAST.search(text[-40:]) if rank is None and "\n" not in text else None
    return Whose(
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
    proc = None if found else _PROC.search(text)
    if proc is not None:
        return number(proc.group("rank") or proc.group("node"))
    if not found:
        file = _FILES.match(text)
        if file is not None:
            return number(file.group("named") or file.group("folder"))
        short = _SHORT.search(text[:_VERY_FRONT])
        if short is not None:
            return number(short.group("bare") or short.group("key") or short.group("proc"))
        expert = _EXPERT.match(text)
        if expert is not None:
            return number(expert.group("ep"))
        tensor = _TENSOR.search(text)
        alone = tensor is not None and not _OTHER_AXIS.search(tensor.group("name"))
        return number(tensor.group("tp")) if tensor is not None and alone else None
    return found.pop() if len(found) == 1 else None


def _rank_by_key(text: str) -> Optional[int]:
    match = _KEY.search(text[:FRONT])
    return None if match is None else number(match.group("rank"))
