"""NCCL's warnings, told apart by what they mean (``nccl.warn``)."""

from __future__ import annotations

from typing import Match, Optional, Tuple

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Said, Signature, fields, number

_HEAD = re.compile(
    r"(?:(?P<at_file>[\w/.-]{1,255}:\d{1,9})(?: \(\w{1,80}\))? )?(?:NCCL|CCOM) WARN\s*(?P<message>.*)", re.S
)
_PEER = r"(?P<peer>[^\s,]+?)"

_COMPLETION = re.compile(
    r"[Gg]ot completion (?:from peer "
    + _PEER
    + r" )?with (?:status=|error )\s*(?:(?P<status_name>IBV_WC_\w+)\()?(?P<status>\d+)"
)
_HCA = re.compile(r"\bhca (?P<device>\S+)")
_PORT_EVENT = re.compile(
    r"(?:(?P<device>[a-z]\w{0,32}_\d{1,4}):(?P<port>\d{1,4}) )?(?:[Gg]ot )?(?:non-fatal )?async (?:fatal |error )?"
    r"event ?: ?(?P<error>[^\r\n]*)"
)

SIGNATURES: Tuple[Signature, ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("cuda_ipc", r"open CUDA IPC handle ?: ?(?:\d+ )?(?P<error>[^\r\n]*)"),
        ("ib_queue_pair", r"ibv_modify_qp failed(?: with)?(?: error)?:? ?(?P<error>[^\r\n]*)"),
        (
            "ib_memory",
            r"ibv_(?:reg_(?:dmabuf_)?mr\w*|create_qp|create_cq) failed(?: with)?(?: error)?:? ?(?P<error>[^\r\n]*)",
        ),
        (
            "duplicate_gpu",
            r"Duplicate GPU detected ?: rank (?P<a>\d+) and rank (?P<b>\d+) both on CUDA device (?P<device>\w+)",
        ),
        ("collective_mismatch", r"[Mm]ismatched collective(?: detected)?(?:.*?at and around rank (?P<around>\d+))?"),
        (
            "size_mismatch",
            r"(?:peer " + _PEER + r" )?collective mismatch error,? local size (?P<expected>\d+)"
            r" remote size (?P<bytes>\d+)"
            r"|peer " + _PEER.replace("peer", "other") + r" posted incorrect receive info: size (?P<posted>\d+)",
        ),
        (
            "duplicate_rank",
            (
                r"Bootstrap Root ?: (?:rank (?P<twice>\d+) of (?P<size>\d+) ranks? has already checked in"
                r"|mismatch in rank count)"
                r"|Invalid rank requested ?: (?P<asked>\d+)/(?P<among>\d+)"
            ),
        ),
        (
            "proxy",
            (
                r"\[(?:Proxy (?:Service|Progress)|Service thread|Proxy Thread)|Socket (?:recv|send) failed while"
                r"|proxyProgress|[Pp]roxy (?:[Cc]all|connection|thread|recv|send)[^\r\n]*?(?:fail|error|closed|timed)"
            ),
        ),
        ("version_mismatch", r"Mismatched NCCL version|NCCL version mismatch"),
        ("truncated", r"[Mm]essage truncated ?: receiv(?:ed|ing) (?P<bytes>\d+) bytes instead of (?P<expected>\d+)"),
        ("no_interface", r"[Nn]o (?:usable )?(?:socket )?interface found|Bootstrap ?: no socket"),
        ("open_files", r"Too many open files"),
        (
            "connection_closed",
            r"[Cc]onnection closed by (?:remote )?peer ?" + _PEER + r"?(?:\s|$)"
            r"|(?:(?:recv|send)\w* (?:from|to) " + _PEER.replace("peer", "other") + r" failed.*?)?"
            r"(?P<error>Connection reset by peer|Broken pipe)",
        ),
        (
            "connect_failed",
            r"[Cc]onnect(?:ion)? to "
            + _PEER
            + r"(?: \([^)]*\))? (?:failed|returned|timed out|refused|exceeded)(?: with)?(?: :)? ?(?P<error>[^\r\n]*)"
            r"|(?:connect|Connect) (?:returned|failed)(?: with)?(?: error)?:? ?(?P<reason>[^\r\n]*)"
            r"|exceeded error retry count|Socket creation failed ?: ?(?P<created>[^\r\n]*)"
            r"|(?P<family>connecting to address .{0,120}?with family \d+ is neither)"
            r"|(?:accept|socketAccept).*?(?:timed out|timeout)|(?P<plain>Connection (?:refused"
            r"|timed out)|No route to host)",
        ),
        ("shared_memory", r"/dev/shm|shared memory segment|shm_?open|shmOpen|ncclShm"),
        ("nvls", r"NVLink SHARP|NVLS|[Mm]ulticast"),
        ("invalid_device", r"invalid device ordinal|[Ii]nvalid (?:CUDA )?device"),
        (
            "cuda",
            (
                r"(?:Cuda|HIP) failure(?: \d+)?:? '(?P<error>[^'\r\n]*)'|hip[A-Z]\w+ failed ?: ?(?P<hip>[^\r\n]*)"
                r"|CUDA (?:driver )?(?:failure|error)[: ]+(?P<reason>[^\r\n]*)"
            ),
        ),
        ("init_timeout", r"(?i)bootstrap.*tim(?:ed|e) ?out|timeout waiting for|waiting for (?:rank|peer)s?.*connect"),
        (
            "env",
            (
                r"(?i)(?:invalid|unknown|unsupported|could not (?:parse|find)|ignoring).{0,200}\bNCCL_[A-Z_]{1,80}"
                r"|\bNCCL_[A-Z_]{1,80}.{0,200}(?:invalid|not supported|ignored|deprecated)"
            ),
        ),
        (
            "net_failed",
            (
                r"NET/OFI [^\r\n]{0,200}?"
                r"(?P<error>completed with error[^\r\n]*|[Cc]ouldn't [^\r\n]*|Creating [^\r\n]{0,200}?failed[^\r\n]*)"
            ),
        ),
        ("net_plugin", r"NET/(?:Plugin|OFI)|[Pp]lugin|OFI "),
    )
)

_RENAMED = (
    ("created", "error"),
    ("other", "peer"), ("reason", "error"), ("plain", "error"), ("family", "error"), ("posted", "bytes"),
    ("hip", "error"), ("among", "size"),
    ("a", ""), ("b", ""),
)  # fmt: skip
"""Groups that stand twice in a pattern, and the fields that they mean."""

_COMPLETION_NAMES = {12: "ib_retry_exceeded", 5: "ib_flush"}


def read(text: str) -> Said:
    """The event of one warning; ``text`` is the record, with or without its prefix."""
    head = _HEAD.search(text)
    message = head.group("message").strip() if head is not None else text.strip()
    signature, data = classify(message)
    data["signature"] = signature
    data["message"] = message[:1000]
    if head is not None and head.group("at_file"):
        data["at_file"] = head.group("at_file")
    return Said("nccl.warn", data)


def classify(message: str) -> "Tuple[str, Data]":
    """What a warning means, and the fields that it tells."""
    completion = _COMPLETION.search(message)
    if completion is not None:
        data = fields(completion, ("status",))
        hca = _HCA.search(message)
        if hca is not None:
            data["device"] = hca.group("device")
        status = data.get("status")
        return _COMPLETION_NAMES.get(status if isinstance(status, int) else 0, "ib_completion"), data
    event = _PORT_EVENT.search(message)
    if event is not None:
        data = fields(event, ("port",))
        failed = re.search(
            r"(?i)err|fatal|down|fail", str(data.get("error", "")) + (" fatal" if "fatal event" in message else "")
        )
        if re.search(r"work queue|\bCQ\b|\bQP\b|\bSRQ\b", str(data.get("error", ""))):
            return "ib_queue_error", data  # of one connection, not of the port
        return ("ib_port_error" if failed and "active" not in str(data.get("error", "")) else "other"), data
    for name, pattern in SIGNATURES:
        match = pattern.search(message)
        if match is not None:
            return name, _known(name, match)
    return "other", {}


def _known(name: str, match: "Match[str]") -> Data:
    data = fields(match, ("bytes", "expected", "posted", "size", "among"))
    if name == "duplicate_gpu":
        data["group_ranks"] = [number(match.group("a")), number(match.group("b"))]
    for spare in ("around", "twice", "asked"):
        one = data.pop(spare, None)
        if isinstance(one, str):
            data["group_ranks"] = [number(one)]
    for spare, real in _RENAMED:
        value = data.pop(spare, None)
        if real and value is not None:
            data.setdefault(real, value)
    peer = data.get("peer")
    if isinstance(peer, str):
        data["peer"] = peer.rstrip(":.")
    return data


def cause(message: str) -> Optional[Said]:
    """The event of NCCL's own words inside an exception ("Last error:"); None when they name no known cause."""
    signature, data = classify(message)
    if signature in ("other", "net_plugin", "env"):
        return None
    data["signature"] = signature
    data["message"] = message.strip()[:1000]
    return Said("nccl.warn", data)
