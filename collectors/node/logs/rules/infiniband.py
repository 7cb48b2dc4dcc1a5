"""Errors of the libraries below NCCL: verbs, UCX, libfabric.

``fabric.error`` has ``library``, ``signature`` and the words in ``error``.
"""

from __future__ import annotations

from typing import Match, Optional

from collectors.node import late_re as re
from collectors.node.logs.rule import Data, Example, Rule

_FAULT = re.compile(
    r"(?i)err|fail|unable|unreachable|tim(?:ed |e)out|refused|reset|abort|no active|could|can't|exceeded|no route"
)

_PROBED = re.compile(
    r"(?i)\b(?:dlopen|dlsym|hmem)|_hmem\b|\bNo data available\b|\bprovider\w{0,3} (?:is )?not (?:found|available)"
)
"""What libfabric tries at its start of libraries and devices that a machine may well lack."""

_SIGNATURES = tuple(
    (name, re.compile(pattern, re.I))
    for name, pattern in (
        ("retry_exceeded", r"retry (?:(?:count|counter)\w{0,4} )?exceeded|RETRY_EXC|no response from (?:the )?remote"),
        ("memory", r"\breg(?:ister)?[ _](?:dmabuf_)?mr|allocate MR|memory region|memlock|Cannot allocate memory"),
        ("device", r"can't open|No such device|unable to open"),
        ("completion", r"\b(?:local|remote) (?!access permission)[\w ]{4,20} error\b|bad response error"),
        ("queue_pair", r"\bQP\b|modify_qp|create_qp|queue pair"),
        ("connect", r"connect|refused|no route|unreachable|unable to reach|not be reached|handshake"),
    )
)


def _signed(match: "Match[str]", data: Data) -> Optional[Data]:
    error = str(data.get("error", ""))
    if "NCCL " in match.string or not _FAULT.search(error) or _PROBED.search(error):
        return None
    return dict(data, signature=next((name for name, pattern in _SIGNATURES if pattern.search(error)), "other"))


def _library(id_: str, library: str, pattern: str, example: Optional[Example]) -> Rule:
    return Rule(id_, "fabric.error", pattern, example, {"library": library}, read=_signed)


RULES = (
    _library("ucx", "ucx",
             r"(?:^|\[(?P<by_host>[A-Za-z][\w.-]{0,100}):\d{1,9}:\d{1,3}(?::\d{1,9})?\][^\n]{0,80}?)?"
             r"(?:UCX {1,4}(?:ERROR|FATAL)|ib_mlx5_log\.c:\d{1,4}) {1,3}(?P<error>[^\r\n]{1,300})",
             Example("[n7:4711:0] ucp_ep.c:12 UCX  ERROR connection refused", {"library": "ucx",
                     "signature": "connect"}, "ucx src/ucs/debug/log.c")),
    _library("libfabric", "libfabric",
             r"libfabric:(?:\d[\w.:]{0,60}:)?[\w:-]{0,80}(?:<(?:warn|error|critical)>|\(\)(?::\d{1,6})?"
             r"(?:<(?!info|debug|trace)\w{1,10}>)?:?) (?!<)(?P<error>[^\r\n]{1,300})"
             r"|(?P<error_2>(?:Libfabric )?EFA (?:provider has encountered an )?internal error[^\r\n]{0,200})",
             Example("libfabric:4711:efa:cq:efa_rdm_cq_poll():442<warn> connection to peer failed: no route to host",
                     {"library": "libfabric", "signature": "connect"}, "libfabric prov/efa")),
    _library("verbs", "verbs",
             r"(?P<error>\bibv_\w{3,30}(?:\(\))?(?: to \w{3,6})? (?:failed|returned error|error)\b[^\r\n]{0,160}"
             r"|(?:[Ff]ailed|[Uu]nable|[Cc]ouldn't) (?:to )?(?:modify|create|register|allocate) (?:a |an |the )?"
             r"(?:QP|CQ|MR|PD|queue pair|memory region)\b[^\r\n]{0,160})",
             Example("Failed to modify QP 12 to RTR", {"library": "verbs", "signature": "queue_pair"},
                     "rdma-core libibverbs/verbs.c")),
    _library("completion", "verbs",
             r"(?P<error>\b(?:CQE|WC|CQ|[Ww]ork completion|[Cc]ompletion)\b[^\r\n]{0,160}\b(?:local (?:length"
             r"|QP operation|protection|access) error|remote (?:invalid request|access|operation|aborted) error"
             r"|(?:transport|RNR) retry counter exceeded|bad response error)[^\r\n]{0,160})",
             Example("WC status 12: transport retry counter exceeded", {"signature": "retry_exceeded"},
                     "rdma-core libibverbs/enum_strs.c")),
)  # fmt: skip
