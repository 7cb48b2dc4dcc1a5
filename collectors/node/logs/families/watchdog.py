"""The watchdog of torch's NCCL process groups, 1.10 to 2.14: time-outs, what was enqueued, dumps, hangs of its own.

``[PG ID a PG GUID b(desc) Rank c]``: ``a`` counts the groups of one process, so that ranks call one group by several
numbers and several groups by one; ``b`` is the group's name, which its ranks share; ``c`` is the rank within the group.
2.14 leaves ``a`` out. The bare ``[Rank c]`` of a time-out is written once for a process (up to 2.13 it is ``static`` in
``WorkNCCL::logPrefix``): lines about other groups repeat the rank within the first one.
"""

from __future__ import annotations

from typing import Dict, Iterator

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said, fields, number

_GROUP = re.compile(
    r"\[PG (?:(?:ID )?(?P<group>\d+) ?)?(?:(?:PG )?GUID(?: (?P<guid>(?!Rank )[^\s(\]]+))?)?"
    r"(?: ?\((?P<group_name>[^)\]]*)\))?"
    r" {0,2}Rank (?P<group_rank>\d+)\]"
    r"|\[Rank (?P<old_rank>\d+)\]"
)
_TIMEOUT = re.compile(
    r"(?:Watchdog caught collective operation timeout"
    r"|Timeout at collective)\s*:\s*Work(?:NCCL)?\("
    r"(?P<work>.*?Timeout\s*\(ms\)\s*=\s*\d+)\)"
    r"(?:\s*ran\s+for\s+(?P<ran_ms>\d+)\s+milliseconds)?",
    re.S,
)
_TAIL = re.compile(r"Timeout\s?\(ms\)\s?=\s?\d{1,12}\) ran for (?P<ran_ms>\d{1,12}) milliseconds")
_CUT = "Watchdog caught coll"
"""How far its line is surely the watchdog's, where the line is cut."""
_FIELD = re.compile(r"(SeqNum|OpType|NumelIn|NumelOut|Timeout\s*\(ms\))\s*=\s*(\w+)(?=\s*[,)]|$)")
"""A value is whole where a comma or the bracket follows: a terminal's own words may cover the rest of it."""
_NAMES: Dict[str, str] = {"SeqNum": "seq", "OpType": "op", "NumelIn": "numel_in", "NumelOut": "numel_out"}
_STATUS = re.compile(
    r"[Ll]ast enqueued (?:NCCL )?work:\s*(?P<enqueued>-?\d+)(?: \([^)]*\))?"
    r"(?:,\s*last started (?:NCCL )?work:\s*(?P<started>-?\d+)(?: \((?P<started_op>[^)]*)\))?)?"
    r",\s*last completed (?:NCCL )?work:\s*(?P<completed>-?\d+)"
)
_WORK = re.compile(r"(?:Timeout at NCCL work:|detected by watchdog at work:|at work sequence id:)\s*(?P<work>-?\d+)")
_STUCK = re.compile(r"(?:watchdog got stuck for (?P<seconds>\d+) seconds|Heartbeat monitor timed out)")
_GIL = re.compile(r"[Cc]ould not acquire GIL within")
_DUMP = re.compile(
    r"Received (?:a dump signal|a (?:global )?timeout)[^\r\n]*? from\s+(?:(?P<local>this"
    r" local rank)|rank (?P<from_rank>\d+)|another rank)"
)
_OBSERVED = re.compile(r"Observed (?:flight recorder )?dump signal from (?:another rank|rank (?P<from_rank>\d+))")
_DOWN = re.compile(
    r"taking the entire process down|tearing down the (?:entire )?process"
    r"|Some NCCL operations have failed or timed out"
    r"|Terminating the process after attempting to dump"
)
_AT_EXIT = re.compile(
    r"destroy_process_group\(\) was not called before program exit"
    r"|process group has NOT been destroyed before (?:we destruct|it is being destructed)"
)
"""At the end of a program that leaves its groups alone: torch 2.4 and later."""
_THREAD = re.compile(
    r"(?:raised the following async exception|(?:watchdog thread terminated with|Found async"
    r"|caught) exception(?: when checking for NCCL errors)?:?|NCCL error in:|NCCL error:"
    r"|NCCL communication aborted:"
    r"|DistBackendError:)"
)
_ERRORS = re.compile(
    r"(unhandled cuda error|unhandled system error|internal error|invalid argument|invalid usage|"
    r"remote process exited or there was a network error|NCCL timeout|ncclTimeout|CUDA error: [^\r\n.]*)"
)


def read(text: str) -> Iterator[Said]:
    """Events of one line of the watchdog."""
    group = _group(text)
    timed_out = _TIMEOUT.search(text)
    if timed_out is not None:
        yield Said("torch.watchdog_timeout", dict(group, **_work(timed_out.group("work"), timed_out.group("ran_ms"))))
    else:
        yield from _torn(text, group)
    status = _STATUS.search(text)
    if status is not None:
        yield Said("torch.watchdog_status", dict(group, **_progress(text, status.groupdict())))
    stuck = _STUCK.search(text)
    if stuck is not None:
        yield Said("torch.watchdog_stuck", fields(stuck, ("seconds",)))
    if _GIL.search(text):
        yield Said("torch.gil", {})
    yield from _dumps(text)
    if _DOWN.search(text):
        yield Said("torch.taken_down", {})
    if _AT_EXIT.search(text):
        yield Said("torch.program_exit", {})
    if timed_out is None and _THREAD.search(text):
        error = _ERRORS.search(text)
        if error is not None:
            what = error.group(1).strip()
            yield Said("torch.watchdog_error", dict(group, error=what, consequence=what.startswith("remote process")))


def _torn(text: str, group: Data) -> Iterator[Said]:
    """A time-out of which only the beginning or the end is there: a last field may be cut, and is left out."""
    begun, tail = text.find(_CUT), _TAIL.search(text)
    if begun >= 0:
        yield Said("torch.watchdog_timeout", dict(group, torn=True, **_work(text[begun:].rpartition(",")[0], None)))
    elif tail is not None:
        yield Said("torch.watchdog_timeout", dict(group, torn=True, **_work(text[: tail.end()], tail.group("ran_ms"))))


def _group(text: str) -> Data:
    match = _GROUP.search(text)
    if match is None:
        return {}
    data = fields(match, ("group_rank", "old_rank"))
    old = data.pop("old_rank", None)
    if old is not None:
        data["group_rank"] = old
    return data


def _work(text: str, ran: "str | None") -> Data:
    data: Data = {}
    for name, value in _FIELD.findall(text):
        if name == "OpType":
            data["op"] = value
        else:
            data[_NAMES.get(name, "timeout_ms")] = number(value)
    elapsed = number(ran)
    if elapsed is not None:
        data["ran_ms"] = elapsed
    return data


def _progress(text: str, found: "Dict[str, str | None]") -> Data:
    """The sequence numbers; torch 2.3 prints garbage for those that do not exist yet."""
    data: Data = {}
    enqueued = number(found["enqueued"])
    work = _WORK.search(text)
    if work is not None:
        data["work"] = number(work.group("work"))
    data["enqueued"] = enqueued
    for name in ("started", "completed"):
        value = number(found[name])
        if value is not None and enqueued is not None and -1 <= value <= max(enqueued, -1):
            data[name] = value
    if found.get("started_op"):
        data["started_op"] = found["started_op"]
    return data


def _dumps(text: str) -> Iterator[Said]:
    match = _DUMP.search(text)
    if match is not None:
        data: Data = {"origin": "local" if match.group("local") else "rank"}
        if match.group("from_rank"):
            data["from_rank"] = number(match.group("from_rank"))
        yield Said("torch.dump_signal", data)
        return
    observed = _OBSERVED.search(text)
    if observed is not None:
        yield Said("torch.dump_signal", dict(fields(observed, ("from_rank",)), origin="store"))


FAMILY = Family(
    "watchdog",
    (
        b"atchdog",
        b"ast enqueued",
        b"acquire GIL",
        b"dump signal",
        b"entire process",
        b"Heartbeat monitor",
        b"attempting to dump",
        b"Received a ",
        b"NCCL error",
        b"NCCL communication aborted",
        b"async exception",
        b"DistBackendError",
        b"ProcessGroupNCCL.cpp",
        b") ran for ",
    ),
    read,
    re.compile(
        r"(?:\] Watchdog\s{0,4}$|Watchdog caught coll(?!.*\bmilliseconds)"
        r"|[Ll]ast enqueued (?:NCCL )?work(?!.*last completed (?:NCCL )?work:\s*-?\d)"
        r"|failure detected by watchdog(?!.*last completed)"
        r"|^\[?[EF][\d ].*ProcessGroupNCCL\.cpp:\d+\] (?!.*[.:!\d]\s*$).{20})"
    ),
)
