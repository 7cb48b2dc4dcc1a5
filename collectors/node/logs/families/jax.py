"""JAX's coordination service: tasks that did not come to a barrier, tasks whose heartbeats stopped, no coordinator.

Lines of XLA's ``coordination_service.cc`` and ``coordination_service_agent.cc`` (jaxlib 0.3 to 0.7) and the errors that
Python raises from them. A task is a process: its number is JAX's process index.
"""

from __future__ import annotations

from typing import Iterator, List

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said, fields
from collectors.samples.values import Scalar

_TASK = re.compile(r"/job:[\w-]{1,60}/replica:\d{1,6}/task:(\d{1,6})")
_ITEM = re.compile(
    r"^\s*(?:/job:[\w-]{1,60}/replica:\d{1,6}/task:\d{1,6}\s*$|# of tasks that reached|The first task at the barrier)"
)
_LIST_FOLLOWS = re.compile(
    r"(?:task names|heartbeats\)|tasks? (?:is|are) unhealthy|unhealthy tasks?)\s*:\s*$|Barrier timed out.*further\.\s*$"
)
_BARRIER = re.compile(r"Barrier timed out\. (?:Id|Barrier_id): (?P<barrier>[^\s,]{1,200}?)[.,]?(?:\s|$)")
_KEY = re.compile(r"DEADLINE_EXCEEDED: (?P<barrier>GetKeyValue)\(\) timed out")
_CAME = re.compile(r"# of tasks that reached the barrier: (?P<joined>\d+)/(?P<expected>\d+)")
_ABSENT = re.compile(r"[Tt]imed out task names:")
_SILENT = re.compile(r"unhealthy \(stopped sending heartbeats\)|stopped sending heartbeats")
_HEARTBEAT = re.compile(r"/job:[\w-]{1,60}/replica:\d{1,6}/task:(\d{1,6}) heartbeat timeout")
_RESTARTED = re.compile(
    r"/task:(\d{1,6}) (?:has been restarted|unexpectedly tried to connect with a different incarnation"
    r"|connected with a different incarnation)"
)
_LAME = re.compile(r"lame workers found: HeartbeatManager\(([^)]{0,2000})\)")
"""TensorFlow's session hook on a TPU that went away."""
_DEVICE = re.compile(r"!!!! FATAL ERROR !!!! for \[(?P<device>[^\]]{1,80})\]|Received Error Interrupt! fatal: true")
"""libtpu's word about a TPU."""
_STUCK = re.compile(
    r"This thread has been waiting for `(?P<what>[^`;]{1,400})[`;][^\r\n]{0,500}?"
    r" for (?P<seconds>\d{1,6}) seconds and may be stuck"
    r"|Termination timeout for `(?P<ended>[^`;]{1,400})[`;][^\r\n]{0,500}? of (?P<limit>\d{1,6}) seconds exceeded"
)
"""XLA's rendezvous of the threads that take part in one collective, or in its communicator's start."""
_MEGASCALE = re.compile(
    r"Megascale detects a hang (?:that is likely caused by (?P<cause>[^.\r\n]{3,100}?)(?: on the following hosts)?\."
    r"|but cannot determine the root cause)"
    r"|^\s{0,8}The hosts? (?:that have|with) [\w ]{3,60} (?:are|is): (?P<hosts>[A-Za-z][\w., -]{1,300})"
    r"|^\s{0,8}Potential culprit workers: (?P<workers>[^\r\n]{3,300})"
)
"""The digest of several TPU slices' errors: what is likely, on which hosts, and which workers."""
_GLOG = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d[.\d]{0,8} {1,8}\d{1,10} [\w./+-]{1,200}:\d{1,6}\] {0,8}")
_UNSTUCK = "Thread is unstuck! Warning above was a false-positive"
_HOSTS = re.compile(
    r"TPU backend initialization is taking more than (?P<seconds>\d{1,6})(?:\.\d)? seconds\. Did you run"
)
_VICTIM = re.compile(
    r"(?:JAX distributed service|coordinator) detected (?:fatal errors|missing heartbeats)"
    r"|most likely indicates that another task died"
)
_NO_COORDINATOR = re.compile(
    r"(?P<what>failed to connect to all addresses|Connect\(\) timed out after|agent in error status: DEADLINE_EXCEEDED)"
    r"(?:[^\r\n]{0,200}?ipv[46]:(?P<address>[\w.%\[\]-]{1,80}):(?P<port>\d{1,5}))?"
)
_REGISTERS = re.compile(r"^\s*RPC: /[\w.]{1,80}CoordinationService/RegisterTask\s*$")
"""A line of its own below the status of a call that failed: the one by which a process says that it has come."""
_OF_JAX = re.compile(r"oordination|PjRT|jax|Connect\(\) timed out|XlaRuntimeError|tensorflow\.", re.I)


def read(text: str) -> Iterator[Said]:
    """Events of one line, or of what an exception says."""
    yield from _digested(text) or _said(text)


def _digested(text: str) -> List[Said]:
    """What Megascale's digest tells, a line of it."""
    hang = _MEGASCALE.search(_GLOG.sub("", text))
    return [] if hang is None else [Said("jax.hang", fields(hang))]


def _said(text: str) -> Iterator[Said]:
    """What the coordination service, XLA and libtpu say."""
    barrier = _BARRIER.search(text) or _KEY.search(text)
    if barrier is not None:
        data = fields(barrier)
        came, absent = _CAME.search(text), _ABSENT.search(text)
        if came is not None:
            data.update(fields(came, ("joined", "expected")))
        if absent is not None:
            data["missing"] = _tasks(text[absent.end() :])
        yield Said("jax.barrier", data)
        return
    stuck = _STUCK.search(text)
    if stuck is not None:
        what, seconds = stuck.group("what") or stuck.group("ended"), stuck.group("seconds") or stuck.group("limit")
        yield Said("jax.waiting", {"what": what, "seconds": int(seconds), "ended": stuck.group("ended") is not None})
        return
    hosts = _HOSTS.search(text)
    if hosts is not None:
        yield Said("jax.starting", fields(hosts, ("seconds",)))
        return
    if _UNSTUCK in text:
        yield Said("jax.unstuck", {})
        return
    lost = [int(task) for task in (*_HEARTBEAT.findall(text), *_RESTARTED.findall(text))]
    lame, device = _LAME.search(text), _DEVICE.search(text)
    if device is not None:
        yield Said("jax.device", fields(device))
        return
    if lame is not None:
        lost += [int(str(task)) for task in _tasks(lame.group(1))]
    silent = _SILENT.search(text)
    if silent is not None:
        lost += [int(str(task)) for task in _tasks(text[silent.end() :])]
    if lost:
        how = "restarted" if _RESTARTED.search(text) else "heartbeat"
        tasks: List[Scalar] = []
        tasks.extend(sorted(set(lost)))
        yield Said("jax.lost", {"tasks": tasks, "how": how})
    elif _VICTIM.search(text):
        yield Said("jax.victim", {})
    else:
        yield from _not_reached(text)


def _not_reached(text: str) -> Iterator[Said]:
    away = _NO_COORDINATOR.search(text)
    if _REGISTERS.match(text):
        yield Said("jax.no_coordinator", {"phase": "register"})
    elif away is not None and _OF_JAX.search(text):
        known: Data = fields(away, ("port",))
        yield Said("jax.no_coordinator", known)


def _tasks(text: str) -> List[Scalar]:
    numbers: List[Scalar] = []
    numbers.extend(sorted({int(number) for number in _TASK.findall(text)}))
    return numbers


FAMILY = Family(
    "jax",
    (
        b"Barrier timed out",
        b"Megascale detects a hang",
        b"  The host",
        b"otential culprit workers",
        b"heartbeat timeout",
        b"sending heartbeats",
        b"has been restarted",
        b"lame workers found",
        b"!!!! FATAL ERROR !!!!",
        b"Received Error Interrupt",
        b"different incarnation",
        b"detected fatal errors",
        b"detected missing heartbeats",
        b"another task died",
        b"connect to all addresses",
        b"Connect() timed out",
        b"GetKeyValue() timed out",
        b"and may be stuck",
        b"Termination timeout for",
        b"Thread is unstuck",
        b"TPU backend initialization is taking",
        b"oordination service agent in error",
        b"CoordinationService/RegisterTask",
    ),
    read,
    listed=(_LIST_FOLLOWS, _ITEM),
)
