"""HCCL, the collectives of Ascend NPUs: its lines in CANN's plog files, and its codes in what torch_npu raises.

Formats as CANN's guide on HCCL faults shows them (hiascend.com, "Fault Locating", "Notify Wait Timeout (EI0002)",
"Connection Setup Timeout (EI0006)"; CANN 6.0 to 9.0) and as public issues quote them.
"""

from __future__ import annotations

from typing import Iterator, Optional

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said, fields, number

PLOG = re.compile(r"\[(?P<level>[A-Z]+)\] ?HCCL\((?P<pid>\d+),[^)]*\):")
"""What every line of HCCL in a plog begins with."""
_CODE = re.compile(
    r"\b(?P<code>E[EHIJ]\d{4})(?:\)|:) *(?:\[PID: ?(?P<pid>\d+)\])? *(?:\d{4}-[\d:.-]+ )?(?P<message>[^\r\n]{0,300})"
)
_RANK_ID = re.compile(r"\(PID: ?(?P<pid>\d+), Device: ?-?\d+, RankID: ?(?P<rank>\d+)\)")
_FAILED = re.compile(r"Task (?:from HCCL )?run failed, (?:base|groupRank) information")
_TAG = re.compile(r"\btag\[(?P<op>[A-Za-z]+)_")
_GROUP = re.compile(r"\bgroup:\[(?P<group>[^\]]*)\]")
_PLACE = re.compile(r"\brankSize\[(?P<size>\d+)\], ?rankId\[(?P<group_rank>\d+)\]")
_REMOTE = re.compile(r"remote rank:? ?\[(?P<remote>\d+)\]")
_SOCKET = re.compile(
    r"wait socket establish timeout, role\[\d+\] rank\[(?P<group_rank>\d+)\] timeout\[(?P<seconds>\d+)"
)
_LISTEN = re.compile(r"listen on ip\[[^\]\r\n]{1,80}\] and specific port\[(?P<port>\d{1,5})\] fail")
_LOST = re.compile(r"Cluster Exception Location\[IP/ID\]:\[(?P<place>[^\]]*)\].*?ExceptionType:\[(?P<what>[^\]]*)\]")
_INIT = re.compile(
    r"Entry-HcclCommInit\w*:ranks\[(?P<size>\d+)\], rank\[(?P<group_rank>\d+)\]"
    r"(?:.*?identifier\[(?P<group>[^\]]*)\])?"
)
_NO_COMMUNICATOR = re.compile(
    r"\b(?P<function>HcclCommInit\w{1,40}) fail(?:ed)?, (?P<error>error: ?\d{1,9}), rank: ?(?P<rank>\d{1,7})\b"
)
"""A runner of Ascend's transformer library (ATB) that got no communicator."""
_TIMEOUTS = {"EI0002": "hccl.timeout", "EI0006": "hccl.connect_timeout", "EE1002": "hccl.timeout"}
"""Codes that say which wait has ended: of a task for a notification, of a connection for its peer, for a stream."""
_LOST_COMPLETION = "EI0013"
"""An operation between two devices over RoCE that ended with an error: the network, or the other side."""
_LATE = re.compile(r"(?:sync|task|fftsplus|notify|hccl)[^\r\n]{0,30}?time(?:d )?out", re.I)
"""What the general codes (``EI9999``, ``EE9999``, ``EH9999``) say when such a wait has ended."""

_REASON = re.compile(r"execute failed, reason=\[(?P<message>[^\]\r\n]{0,60}time(?:d )?out[^\]\r\n]{0,40})\]")
"""The same without a code, on a line of its own."""


def read(text: str) -> Iterator[Said]:
    """Events of one line, or of the message of what torch_npu raised."""
    plog, of_rank = PLOG.match(text), _RANK_ID.search(text)
    named = plog or of_rank
    pid = number(named.group("pid")) if named is not None else None
    rank = number(of_rank.group("rank")) if of_rank is not None else None
    lost = _LOST.search(text)
    if lost is not None:
        yield Said("hccl.lost", fields(lost), pid=pid, rank=rank)
    code = _CODE.search(text)
    if code is not None:
        data = dict(_task(text), **fields(code, ("pid",)))
        its = data.pop("pid", None)
        if code.group("code") == _LOST_COMPLETION:
            lost_one: Data = {
                "library": "hccl",
                "signature": "retry_exceeded",
                "error": str(data.get("message", ""))[:300],
            }
            yield Said("fabric.error", lost_one, pid=its if isinstance(its, int) else pid, rank=rank)
            return
        late = code.group("code").endswith("9999") and _LATE.search(text[code.start() :][:1000])
        kind = _TIMEOUTS.get(code.group("code"), "hccl.timeout" if late else "hccl.error")
        yield Said(kind, data, pid=its if isinstance(its, int) else pid, rank=rank)
        return
    reason = _REASON.search(text)
    if reason is not None:
        yield Said("hccl.timeout", fields(reason), pid=pid, rank=rank)
        return
    refused = _NO_COMMUNICATOR.search(text)
    if refused is not None:
        yield Said(
            "nccl.failed",
            {"function": refused.group("function"), "error": refused.group("error")},
            pid=pid,
            rank=number(refused.group("rank")),
        )
        return
    if of_rank is not None:
        yield Said("hccl.rank", {}, pid=pid, rank=rank)
    if plog is None or lost is not None:
        return
    said = _of_plog(text, plog.group("level"))
    if said is not None:
        yield said._replace(pid=pid)


def _of_plog(text: str, level: str) -> Optional[Said]:
    init, socket, listen = _INIT.search(text), _SOCKET.search(text), _LISTEN.search(text)
    if listen is not None:
        return Said("torch.address_in_use", fields(listen, ("port",)))
    if init is not None:
        return Said("hccl.init", fields(init, ("size", "group_rank")))
    if socket is not None:
        return Said("hccl.connect_timeout", dict(fields(socket, ("group_rank", "seconds")), code="EI0006"))
    if _FAILED.search(text):
        timed_out = "Timeout" in text or "timeout" in text
        return Said("hccl.timeout" if timed_out else "hccl.error", dict(_task(text), message=text[-300:]))
    return Said("hccl.error", {"message": text[-300:]}) if level == "ERROR" else None


def _task(text: str) -> Data:
    """The operation, the group, this process's rank and the remote one within it, as far as a text tells them."""
    data: Data = {}
    for pattern in (_TAG, _GROUP, _PLACE, _REMOTE):
        match = pattern.search(text)
        if match is not None:
            data.update(fields(match, ("size", "group_rank", "remote")))
    return data


FAMILY = Family(
    "hccl",
    (b"HCCL(", b"EI0", b"EI9", b"EE1002", b"EE9999", b"EH9999", b"EJ0", b"RankID:", b"reason=[", b"HcclCommInit"),
    read,
)
