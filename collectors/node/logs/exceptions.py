"""Classifies a Python exception by type and message, and picks the relevant frame of its traceback.

Patterns are plain strings here and in the records' modules: most nodes never need them, so none is compiled at start.
"""

from __future__ import annotations

import re
from typing import List, Sequence, Tuple

from collectors.node.logs.rule import Data
from collectors.samples import Scalar

FRAME = r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in (?P<function>.*)|(?:, ?i?n?)?\s*)$'
"""A frame; the function is missing in a report of a syntax error, or when a terminal wrapped the line."""
HEADLINE = (
    r"(?s)^(?P<type>[A-Za-z_][\w.]*)(?:\((?P<carried>[A-Za-z_]\w*)\))?(?:(?:: ?|[ \t]{0,8}\n)(?P<message>.*)|\s*)$"
)
"""Ray raises ``RayTaskError(ValueError)`` where a worker raised ValueError."""

LONGEST = 4096
"""Characters of an exception's last lines that are examined."""
KEPT = 60
"""Frames kept of one traceback."""

_LIBRARY = (
    r"/(?:site|dist)-packages/|/lib/python\d|^<frozen|^<string>$|/torch/|^<decorator|\.pyx$|/importlib/|/python\d\.\d+/"
)

TOOLS = (
    r"(?!: Command '?\[?'?(?:/[\w./+-]{0,120}/)?"
    r"(?:x86_64-\S{1,20}|gcc|g\+\+|cc|c\+\+|clang\S{0,8}|nvcc|hipcc|ninja|cmake|make|ldconfig|git|which|numactl)\b)"
)
"""Programs that a rank itself calls: their failure is the rank's own failure, not that of a launcher's child."""
SIGNATURES = (
    ("child_failed", r"ChildFailedError|CalledProcessError" + TOOLS + r"[^\r\n]*returned non-zero"
     r"|ProcessRaisedException|CalledProcessError: Command '?\['[^'\r\n]{1,300}\bpython[\d.]{0,5}'"
     r"|ProcessExitedException|TrainingFailedError|WorkerGroupError"
     r"|\b(?:ActorDied|RayActor|ActorUnavailable|WorkerCrashed|ObjectLost|OwnerDied)Error"),
    ("interrupt", r"^(?:\w+\.)*(?:KeyboardInterrupt|SignalException|SystemExit|GeneratorExit)\b"),
    ("fingerprint", r"Detected mismatch between collectives"),
    ("host_memory", (r"Cannot allocate memory|\b(?:RayOutOf)?MemoryError\b|std::bad_alloc|DefaultCPUAllocator: "
     r"|ray\.exceptions\.OutOfMemoryError|node running low on memory")),
    ("out_of_memory", (r"(?:torch|cuda|cupy)[\w.]*\.OutOfMemoryError|[Oo]ut of memory|CUBLAS_STATUS_ALLOC_FAILED"
     r"|RESOURCE_EXHAUSTED: [^\r\n]{0,80}\b(?:memory|allocat)")),
    ("worker_died", r"DataLoader worker(?! process \d)"),
    ("address_in_use", r"EADDRINUSE|[Aa]ddress already in use"),
    ("rendezvous", r"Rendezvous\w*Error|waiting for clients|client socket has|store based barrier"),
    ("collective_timeout", (r"failed to pass monitoredBarrier|reached monitoredBarrier|Watchdog caught collective"
     r"|Timed out waiting \d+ms for|collective operation timeout|Application timeout caused pair closure"
     r"|timed out in monitoredBarrier|Barrier timed out\. (?:Id|Barrier_id)")),
    # an unreachable service is not a peer that ended
    ("user", (r"^(?:requests|urllib3?|http\.client|httpx|httpcore|aiohttp|redis|pymongo|botocore)\."
     r"|HTTPS?ConnectionPool")),
    ("connection", (r"Connection (?:closed|reset) by (?:remote )?peer|Broken pipe|Connection refused|Connection aborted"
     r"|ConnectionError|remote process exited|heartbeat timeout|stopped sending heartbeats|another task died")),
    ("store", r"DistStoreError|DistNetworkError|TCPStore|wait timeout|Socket Timeout|key-value store|store->get\("),
    # a missing attribute or name is no error of NCCL, even if its name contains "nccl"
    ("nccl", r"\A(?!(?:Attribute|Name)Error:)[\s\S]{0,4000}?(?:NCCL|nccl|DistBackendError)"),
    ("cuda", r"CUDA error|CUDA driver|CUDA_ERROR_|CUBLAS_|CUDNN_|HIP error|AcceleratorError|cudaError"),
)  # fmt: skip
"""Classes of exceptions by pattern; the first match wins, without a match the class is ``user``."""

CONSEQUENCE = (
    r"Connection (?:closed|reset) by (?:remote )?peer|Broken pipe|remote process exited|SignalException|got signal|"
    r"communicator was aborted|NCCL communicator .*abort|reached monitoredBarrier, but|KeyboardInterrupt|"
    r"recvValue failed|sendBytes failed|got 0 bytes|ncclRemoteError|[Cc]onnection was likely closed|"
    r"ChildFailedError|CalledProcessError" + TOOLS + r"[^\r\n]*non-zero|ProcessExitedException|exitcode -15|SIGTERM|"
    r"DataLoader worker .* (?:Terminated|exited unexpectedly)|cannot schedule new futures after|"
    r"Transport endpoint is not connected(?!: ')|heartbeat timeout|"
    r"stopped sending heartbeats|another task died|`Termination signal` is detected|RPC call to \w{1,60} timed out"
)
"""Messages of errors that follow from the end of another process."""

LAUNCHERS = (
    r"torch/distributed/(?:run|launch)\.py|torch/distributed/launcher/"
    r"|torch/distributed/elastic/(?:agent|multiprocessing/api)|"
    r"accelerate/commands/|"
    r"deepspeed/launcher/|torch/multiprocessing/spawn\.py in join|bin/torchrun"
)


def headline(text: str) -> Data:
    """``type``, ``message``, ``signature`` and ``consequence`` from the last line(s) of a traceback."""
    text = text[:LONGEST]
    match = re.match(HEADLINE, text.strip())
    name, carried, message = ("", None, text) if match is None else match.group("type", "carried", "message")
    if carried:  # the worker's own message: the last line of Ray's message that begins with the carried type
        name, message = carried, message or ""
        messages = re.findall(r"(?m)^\s*(?:\w+\.)*%s: (.*)" % re.escape(carried), message)
        message = messages[-1] if messages else message
        text = f"{carried}: {message}"
    what = signature(text)
    return {
        "type": name.rsplit(".", 1)[-1],
        "message": (message or "").strip()[:2000],
        "signature": what,
        "consequence": what in ("child_failed", "interrupt") or re.search(CONSEQUENCE, text) is not None,
    }


def signature(text: str) -> str:
    """The class of an exception by its last line (and message)."""
    return next((name for name, pattern in SIGNATURES if re.search(pattern, text)), "user")


def framed(frames: Sequence[Tuple[str, int, str]]) -> Data:
    """``frames``, ``frame`` and ``launcher`` of a traceback's (file, line, function), outermost first.

    ``frame`` is the innermost frame outside libraries, else the innermost frame.
    """
    kept = frames if len(frames) <= KEPT else [*frames[: KEPT // 3], *frames[-(KEPT - KEPT // 3) :]]
    said: List[Scalar] = ["%s:%d in %s" % frame for frame in kept]
    data: Data = {"frames": said, "launcher": any(re.search(LAUNCHERS, "%s in %s" % (f[0], f[2])) for f in frames)}
    outside = [frame for frame in frames if not re.search(_LIBRARY, frame[0])] or frames
    return {**data, "frame": "%s:%d in %s" % outside[-1]} if outside else data
