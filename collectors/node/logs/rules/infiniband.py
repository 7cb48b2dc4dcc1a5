"""Errors of the libraries below and beside NCCL: verbs, UCX, libfabric, NVSHMEM, Open MPI's transports.

``fabric.error`` has ``library``, ``signature`` and the words in ``error``.
"""

from __future__ import annotations

from typing import Match, Optional

from collectors.node import late_re as re
from collectors.node.logs.rule import Data, Rule

_FAULT = re.compile(
    r"(?i)err|fail|unable|unreachable|tim(?:ed |e)out|refused|reset|abort|no active|non-zero status|NULL value|could"
    r"|can't"
    r"|exceeded|no route|returned -?[1-9]"
)
_PROBED = re.compile(
    r"\b(?:dlopen|dlsym|hmem)|_hmem\b|\bNo data available\b|\bprovider\w{0,3} (?:is )?not (?:found"
    r"|available)",
    re.I,
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
        ("connect", (r"connect|refused|no route|unreachable|unable to reach|not be reached|handshake|\b(?:read"
                    r"|write)v\b")),
    )
)  # fmt: skip


def _signed(match: "Match[str]", data: Data) -> Optional[Data]:
    error = str(data.get("error", ""))
    if "NCCL " in match.string or not _FAULT.search(error) or _PROBED.search(error):
        return None
    return dict(data, signature=next((name for name, pattern in _SIGNATURES if pattern.search(error)), "other"))


def _library(library: str, pattern: str, sample: str, signature: str, source: str, **more: object) -> Rule:
    return Rule("%s_%s" % (library, source.rpartition("/")[2].partition(".")[0]), "fabric.error", pattern, sample,
                {"library": library, "signature": signature, **more}, source, {"library": library},
                read=_signed)  # fmt: skip


RULES = (
    _library("ucx", r"(?:^|\[(?P<by_host>[A-Za-z][\w.-]{0,100}):\d{1,9}:\d{1,3}(?::\d{1,9})?\][^\n]{0,80}?)?UCX"
                    r" {1,4}(?:ERROR|FATAL)"
             r" (?P<error>[^\r\n]{1,300})", "[n7:4711:0] ucp_ep.c:12 UCX  ERROR connection refused", "connect",
             "ucx src/ucs/debug/log.c"),
    _library("ucx", r"ib_mlx5_log\.c:\d{1,4} {1,3}(?:FATAL: )?(?P<error>(?:Error on|Transport|Remote"
                    r"|Local)[^\r\n]{1,200})",
             "ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15)", "retry_exceeded",
             "ucx src/uct/ib/mlx5/ib_mlx5_log.c"),
    _library("libfabric", r"libfabric:(?:\d[\w.:]{0,60}:)?[\w:-]{0,80}(?:<(?:warn|error|critical)>|\(\)(?::\d{1,6})?"
             r"(?:<(?!info|debug|trace)\w{1,10}>)?:?) (?!<)(?P<error>[^\r\n]{1,300})"
             r"|(?P<error_2>(?:Libfabric )?EFA (?:provider has encountered an )?internal error[^\r\n]{0,200})",
             "libfabric:4711:efa:cq:efa_rdm_cq_poll():442<warn> connection to peer failed: no route to host", "connect",
             "libfabric prov/efa"),
    _library("verbs", r"(?P<error>\bibv_\w{3,30}(?:\(\))?(?: to \w{3,6})? (?:failed|returned error"
                      r"|error)\b[^\r\n]{0,160}"
             r"|(?:[Ff]ailed|[Uu]nable|[Cc]ouldn't) (?:to )?(?:modify|create|register|allocate) (?:a |an |the"
             r" )?(?:QP|CQ|MR|PD|queue pair"
             r"|memory region)\b[^\r\n]{0,160})", "Failed to modify QP 12 to RTR", "queue_pair",
             "rdma-core libibverbs/verbs.c"),
    _library("verbs", r"(?P<error>\b(?:CQE|WC|CQ|[Ww]ork completion|[Cc]ompletion)\b[^\r\n]{0,160}\b(?:local"
                      r" (?:length|QP operation"
             r"|protection|access) error|remote (?:invalid request|access|operation|aborted) error|(?:transport|RNR)"
             r" retry counter exceeded"
             r"|bad response error)[^\r\n]{0,160})", "WC status 12: transport retry counter exceeded", "retry_exceeded",
             "rdma-core libibverbs/enum_strs.c"),
    _library("mpi", r"(?:\bfrom (?P<by_host>[A-Za-z][\w.-]{0,80}) to: \S{1,80} )?(?P<error>error polling [LH]P CQ"
                    r" with status"
             r" [^\r\n]{1,160}|connect\(\) to [\w.:-]{3,80} failed: [^\r\n]{1,120}"
             r"|At least one pair of MPI processes are unable to reach each other[^\r\n]{0,60})",
             "connect() to 10.0.0.7:1024 failed: Connection refused (111)", "connect", "Open MPI opal/mca/btl/tcp"),
    _library("nvshmem", r"/(?:host|modules|device)/[\w./-]{1,120}\.(?:cpp|cu|h):(?:\w{1,80}:)?\d{1,6}:"
                        r" (?P<error>non-zero status: -?\d{1,4}"
             r" (?!/)[^\r\n]{1,200}|NULL value (?!/)[^\r\n]{1,200}|nvshmem initialization failed[^\r\n]{0,80})",
             "/build/nvshmem_src/src/host/init/init.cu:1000: non-zero status: 7 nvshmem setup connections failed",
             "connect",
             "NVSHMEM src/host/init/init.cu"),
)  # fmt: skip
