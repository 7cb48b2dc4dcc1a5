"""Inference engines that run ranks of their own: words about workers that do not answer (vLLM, SGLang, TensorRT-LLM).

``engine.waiting``: vLLM's broadcast over shared memory waits for its readers, a line a minute; once is no fault (it
compiles). ``engine.dumped``: it wrote down what it worked on, as it does when a step failed. ``engine.timeout``: a call
to the workers, SGLang's watchdog over its scheduler or its health check, or TensorRT-LLM's detector gave up.
"""

from __future__ import annotations

from typing import Iterator

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said

_WAITING = re.compile(r"No available (?:shared memory broadcast )?block found in (?P<seconds>\d{1,6}) ?second")
_DUMP = re.compile(r"Dumping input data for V\d LLM engine")
_CALL = re.compile(r"RPC call to (?P<call>\w{1,60}) timed out")
_WATCHDOG = re.compile(r"Watchdog timeout \(self\.watchdog_timeout=(?P<seconds>\d{1,6})")
_HANG = re.compile(r"Hang detected on rank (?P<rank>\d{1,6}) in (?P<in>\w{2,40})")
_HEALTH = re.compile(
    r"Health check failed\. Server couldn't get a response from (?P<call>\w{2,40}) for last (?P<seconds>\d{1,6})"
)
_SILENT = re.compile(
    r"\[RankMon(?:itor)?Server(?:\d{0,10}@(?P<host>[\w.-]{1,120}))?:(?P<rank>\d{1,7})\] "
    r"Did not get (?:initial|subsequent) heartbeat\. Waited (?P<seconds>\d{1,7})"
)
"""nvidia-resiliency-ext's monitor of one rank."""
_LABEL = re.compile(r"\b(?:TP|tp_rank=)(?P<tp>\d{1,4})\b")
"""Which tensor-parallel worker speaks: SGLang puts it into the time's brackets."""


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    silent = _SILENT.search(text)
    if silent is not None:
        data: Data = {"seconds": int(silent.group("seconds"))}
        yield Said("monitor.silent", data, rank=int(silent.group("rank")), host=silent.group("host") or "")
        return
    waiting = _WAITING.search(text)
    if waiting is not None:
        yield Said("engine.waiting", {"seconds": int(waiting.group("seconds"))})
        return
    if _DUMP.search(text) is not None:
        yield Said("engine.dumped", {}, text=text[:200])
        return
    hang, health = _HANG.search(text), _HEALTH.search(text)
    if hang is not None:
        yield Said("engine.timeout", {"call": hang.group("in"), "worker": int(hang.group("rank"))})
        return
    if health is not None:
        yield Said("engine.timeout", {"call": health.group("call"), "seconds": int(health.group("seconds"))})
        return
    call, watchdog = _CALL.search(text), _WATCHDOG.search(text)
    if call is not None:
        yield Said("engine.timeout", {"call": call.group("call")})
    elif watchdog is not None:
        data = {"call": "scheduler", "seconds": int(watchdog.group("seconds"))}
        label = _LABEL.search(text[:120])
        if label is not None:
            data["worker"] = int(label.group("tp"))
        yield Said("engine.timeout", data)


FAMILY = Family(
    "engines",
    (
        b"No available ",
        b" heartbeat. Waited ",
        b"Dumping input data",
        b"RPC call to ",
        b"Watchdog timeout (",
        b"Hang detected",
        b"Health check failed",
    ),
    read,
)
