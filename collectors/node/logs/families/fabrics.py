"""Errors of the libraries below and beside NCCL: verbs, UCX, libfabric, PSM2, NVSHMEM, Open MPI's own transports.

``fabric.error`` has ``library``, ``signature`` and the words in ``error``. Warnings that such libraries give on healthy
machines (a device that one build does not know) are left out.
"""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said, number

_UCX = r"UCX {1,4}(?:ERROR|FATAL) (?P<error>[^\r\n]{1,300})"
_UCX_CLOSED = r"ib_mlx5_log\.c:\d{1,4} {1,3}(?:FATAL: )?(?P<error>(?:Error on|Transport|Remote|Local)[^\r\n]{1,200})"
_LIBFABRIC = (
    r"libfabric:(?:\d[\w.:]{0,60}:)?[\w:-]{0,80}(?:<(?:warn|error|critical)>|\(\)(?::\d{1,6})?(?:<(?!info|debug|trace)\w{1,10}>)?:?)"
    r" (?!<)(?:warn: )?(?P<error>[^\r\n]{1,300})"
)
_EFA = r"(?P<error>(?:Libfabric )?EFA (?:provider has encountered an )?internal error[^\r\n]{0,200})"
_OFI = r"Open MPI failed an OFI Libfabric library call \((?P<error>[^)\r\n]{1,80})"
_PSM = (
    r"(?:^(?P<host>[A-Za-z][\w-]{0,60}(?:\.[A-Za-z][\w-]{0,40}){0,4})\.\d{1,9}(?=PSM))?"
    r"(?P<error>(?:PSM2? ?(?:no hfi units|can't open|was unable to|could not|Endpoint could not)"
    r"|hfi_(?:wait_for_device|userinit)\w{0,20}: [^\r\n]{0,80}fail)[^\r\n]{0,200})"
)
_PLUGIN = (
    r"WARN: Function: \w{1,80} Line: \d{1,6}: (?P<error>NET/OFI (?:Couldn't|Could not|Unable|Failed|Request)"
    r"[^\r\n]{1,300})"
)
"""What aws-ofi-nccl says without NCCL, in its own tests."""
_OBJECTS = (
    r"(?P<error>(?:[Ff]ailed|[Uu]nable|[Cc]ouldn't|[Cc]ould not) (?:to )?(?:modify|create|register|allocate)"
    r" (?:a |an |the )?(?:QP|CQ|MR|PD|SRQ|AH|queue pair|memory region)\b[^\r\n]{0,160})"
)
_VERBS = r"(?P<error>\bibv_\w{3,30}(?:\(\))?(?: to \w{3,6})? (?:failed|returned error|error)\b[^\r\n]{0,160})"
_PERFTEST = (
    r"(?P<error>Unable to Connect the HCA's through the link|Failed status \d{1,2}: wr_id[^\r\n]{0,120}"
    r"|^got completion with error\b"
    r"|Completion with error at (?:client|server)[^\r\n]{0,120})"
)
_STATUS = (
    r"(?:(?:WARN|ERROR)\]? (?P<host>[A-Za-z][\w.-]{0,100}) \d{1,9} [^\r\n]{0,200}?)?"
    r"(?P<error>\b(?:CQE|WC|CQ|[Ww]ork completion|[Cc]ompletion)\b[^\r\n]{0,160}\b(?:local (?:length|QP operation"
    r"|protection|access) error|remote (?:invalid request|access|operation|aborted) error"
    r"|(?:transport|RNR) retry counter exceeded|bad response error)[^\r\n]{0,160})"
)
"""The words that libibverbs has for a completion's status, whoever prints them."""
_MPI = (
    r"(?:\bfrom (?P<host>[A-Za-z][\w.-]{0,80}) to: \S{1,80} )?"
    r"(?P<error>error polling [LH]P CQ with status [^\r\n]{1,160}"
    r"|(?:connect\(\) to|unable to connect to) [\w.:-]{3,80} failed: [^\r\n]{1,120}"
    r"|At least one pair of MPI processes are unable to reach each other[^\r\n]{0,60})"
)
_BTL = (
    r"\[(?P<host>[A-Za-z][\w.-]{0,120})\]\[\[\d{1,9},\d{1,9}\],(?P<rank>\d{1,7})\]\[btl_\w{1,40}\.c:\d{1,6}:\w{1,80}\] "
    r"(?P<error>[^\r\n]{0,100}?\b(?:readv?|writev?|recv|send)\b[^\r\n]{0,20}? (?:error|failed)[^\r\n]{0,160})"
)
"""Open MPI's transports, by host and rank, that could not read from a peer or write to it."""
_NVSHMEM = (
    r"(?<![\w./+-])/[\w./+-]{0,200}?(?:src|nvshmem\w{0,12})/(?:host|modules|device)/[\w./-]{1,120}\.(?:cpp|cu|h)"
    r":(?:\w{1,80}:)?\d{1,6}: (?P<error>non-zero status: -?\d{1,4} (?!/)[^\r\n]{1,200}|NULL value (?!/)[^\r\n]{1,200}"
    r"|Unable to initialize any transports[^\r\n]{0,80}|nvshmem initialization failed[^\r\n]{0,80}"
    r"|\w{1,60}: Call to \w{1,20} from [^\r\n]{1,120} failed : [^\r\n]{1,80})"
)
"""A call of NVSHMEM's own, by file and line; that one transport of several does not start is no failure."""
_LIBRARIES: Tuple[Tuple[str, "re.Pattern[str]"], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("ucx", _UCX), ("ucx", _UCX_CLOSED), ("libfabric", _LIBFABRIC), ("libfabric", _EFA), ("libfabric", _OFI),
        ("libfabric", _PLUGIN),
        ("psm", _PSM), ("verbs", _OBJECTS), ("verbs", _VERBS), ("verbs", _PERFTEST), ("verbs", _STATUS),
        ("mpi", _BTL), ("mpi", _MPI), ("nvshmem", _NVSHMEM),
    )
)  # fmt: skip
_BY = re.compile(r"^(?:\[\d{1,12}\.\d{1,9}\] )?\[?(?P<host>[A-Za-z][\w.-]{0,100}):\d{1,9}:\d{1,3}(?::\d{1,9})?\]")
"""UCX's host, process and thread."""
_FAULT = re.compile(
    r"(?i)err|fail|unable|unreachable|tim(?:ed |e)out|refused|reset|abort|no (?:hfi|active)|not (?:reach|permit)"
    r"|non-zero status|NULL value|could|can't|exceeded|no route|returned -?[1-9]"
)
_PROBED = re.compile(
    r"\b(?:dlopen|dlsym|hmem|HMEM)|_hmem\b|\bNo data available\b|\bprovider\w{0,3} (?:is )?not (?:found|available)"
    r"|\buserfaultfd\b|\benv variable not set\b"
)
"""What libfabric tries at its start of libraries and devices that a machine may well lack."""
_RETRIES = (
    r"(?i)retry (?:(?:count|counter)\w{0,4} )?exceeded|RETRY_EXC|failed status 12\b|no response from (?:the )?remote"
)
_MEMORY = r"(?i)\breg(?:ister)?[ _](?:dmabuf_)?mr|allocate MR|memory region|memlock|Cannot allocate memory"
_SIGNATURES: Tuple[Tuple[str, "re.Pattern[str]"], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("retry_exceeded", _RETRIES),
        ("memory", _MEMORY),
        ("device", r"(?i)no hfi|wait_for_device|userinit|can't open|No such device|unable to open"),
        ("completion", r"\b(?:local|remote) (?!access permission)[\w ]{4,20} error\b|bad response error"),
        ("queue_pair", r"(?i)\bQP\b|modify_qp|create_qp|queue pair"),
        (
            "connect",
            r"(?i)connect|refused|no route|unreachable|unable to reach|not be reached|handshake|\b(?:read|write)v\b",
        ),
    )
)


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    if "NCCL " in text or " vfs_" in text:
        return  # its own reader tells more; a view of UCX for debugging, which no transfer needs
    for library, pattern in _LIBRARIES:
        match = pattern.search(text)
        if match is None:
            continue
        error = match.group("error").strip()
        signature = _signature(error)
        if signature is not None:
            data: Data = {"library": library, "signature": signature, "error": error[:300]}
            by = _BY.match(text)
            host = match.groupdict().get("host") or (by.group("host") if by is not None else "")
            rank = number(match.groupdict().get("rank"))
            yield Said("fabric.error", data, host=host, rank=rank)
        return


def _signature(error: str) -> Optional[str]:
    if not _FAULT.search(error) or _PROBED.search(error):
        return None
    return next((name for name, pattern in _SIGNATURES if pattern.search(error)), "other")


FAMILY = Family(
    "fabrics",
    (
        b"UCX  ERROR", b"UCX ERROR", b"UCX  FATAL", b"ib_mlx5_log.c", b"NET/OFI ", b"libfabric:", b"EFA internal error",
        b"an internal error", b"OFI Libfabric", b"PSM", b"hfi_", b" QP", b" MR", b" CQ", b"queue pair",
        b"memory region", b"ibv_", b"HCA's", b"wr_id", b"got completion with error",
        b"error polling ", b"Completion with error", b"connect() to",
        b"unable to connect to", b"one pair of MPI", b"][btl_",
        b"operation error", b"access error", b"protection error", b"length error", b"request error",
        b"counter exceeded", b"response error", b": non-zero status: ", b": NULL value ", b"initialize any transports",
        b"nvshmem init", b": Call to ",
    ),
    read,
)  # fmt: skip
