"""torchelastic's agent (torchrun): failures, closing signals, rendezvous, restarts; error.json.

The block of a ChildFailedError is read in ``elastic_block.py``.
"""

from __future__ import annotations

import json
from typing import Iterator, Optional

from collectors.node import late_re as re
from collectors.node.logs.lines import signals
from collectors.node.logs.records import exceptions
from collectors.node.logs.said import Data, Family, Said, fields, number

_FAILED = re.compile(
    r"failed \(exitcode: (?P<exitcode>-?\d+)\)(?: (?:local_rank: )?(?P<local_rank>\d+) \(pid:"
    r" (?P<failed_pid>\d+)\)(?: of (?:binary|fn): (?P<binary>\S+))?)?"
)
_STATUS = '"torchelastic.worker.status.FAILED"'
_RECEIVED = re.compile(r"Signal \d{1,2} \((?P<signal>SIG\w+)\) received by PID (?P<failed_pid>\d+)")
"""A report's line, where the report itself is not whole."""
_CLOSING = re.compile(
    r"(?:Sending process (?P<pid>\d+) closing signal|Closing process (?P<other>\d+) via signal) (?P<signal>[\w.]+)"
)
_UNABLE = re.compile(
    r"(?:Unable to shutdown process (?P<pid>\d+)|Process (?P<other>\d+) did not exit after"
    r"|Worker pid=(?P<worker>\d+) (?:stuck in|entered) uninterruptible sleep)"
)
_RENDEZVOUS = re.compile(
    r"(?P<name>Rendezvous(?:Timeout|Closed|Connection|State)Error)"
    r"|The rendezvous '(?P<run_id>[^']*)' (?P<state>has been closed|has timed out)?"
    r"|rendezvous.*?(?P<timeout>has timed out|timed out)"
)
_PARTING = re.compile(r"has failed to (?:(?P<shutdown>shutdown)|send a keep-alive heartbeat to) the rendezvous")
"""Warnings of an agent that goes on to do what it was about to: to end, or to watch its ranks."""
_SIGNAL = re.compile(
    r"(?:SignalException: )?Process (?P<pid>\d+) got signal: (?P<signal>\w+)"
    r"|Received (?:Signals\.)?(?P<death>SIG\w+|\d+) death signal, shutting down workers"
    r"|Got termination signal: (?:Signals\.)?(?P<term>\w+)"
)
_RESTART = re.compile(r"Worker group (?:FAILED|UNHEALTHY)\. (?P<attempts_left>\d+)/\d+ attempts left;")
_NEW_NODES = re.compile(r"Detected (?P<nodes>\d+) new nodes.*will restart worker group")
_FINISHED = re.compile(r"worker group successfully finished|Local worker group finished \(SUCCEEDED\)")
_PROBLEMS = {
    "RendezvousTimeoutError": "timeout",
    "RendezvousClosedError": "closed",
    "RendezvousConnectionError": "connection",
    "RendezvousStateError": "state",
}


def read(text: str) -> Iterator[Said]:
    """Events of one line of an agent."""
    if _STATUS in text:
        yield from _status(text)
        return
    failed = _FAILED.search(text)
    if failed is not None:
        data = fields(failed, ("exitcode", "local_rank", "failed_pid"))
        signal = signals.of_exit(number(failed.group("exitcode")))
        if signal:
            data["signal"] = signal
        yield Said("elastic.failed", data)
    received = _RECEIVED.search(text) if failed is None else None
    if received is not None:
        signal = signals.name(received.group("signal"))
        yield Said("elastic.failed", {"failed_pid": number(received.group("failed_pid")), "signal": signal})
    closing = _CLOSING.search(text)
    if closing is not None:
        pid = number(closing.group("pid") or closing.group("other"))
        yield Said("elastic.closing", {"signal": signals.name(closing.group("signal")), "closed_pid": pid})
    unable = _UNABLE.search(text)
    if unable is not None:
        stuck = next(group for group in unable.groups() if group is not None)
        yield Said("elastic.unkillable", {"stuck_pid": number(stuck)})
    yield from _group(text)


def _status(text: str) -> Iterator[Said]:
    """A worker's last state, as the agent records it where events are logged."""
    try:
        event = json.loads(text[text.index("{") :])
    except (ValueError, RecursionError):
        return
    told = event.get("metadata") if isinstance(event, dict) else None
    rank = told.get("global_rank") if isinstance(told, dict) else None
    if not isinstance(rank, int) or not isinstance(told, dict):
        return
    data: Data = {"failed_rank": rank, "root": False, "detail": False}
    pid, host = number(str(told.get("worker_id", ""))), told.get("hostname")
    if pid is not None:
        data["failed_pid"] = pid
    host = host if isinstance(host, str) else ""
    yield Said("elastic.failure", data, host=host, text=f"rank {rank} of {host} FAILED")


def _group(text: str) -> Iterator[Said]:
    signal = _SIGNAL.search(text)
    if signal is not None:
        named = signal.group("signal") or signal.group("death") or signal.group("term")
        data: Data = {"signal": signals.name(named)}
        if signal.group("pid"):
            data["signalled_pid"] = number(signal.group("pid"))
        yield Said("elastic.signal", data)
    rendezvous = _RENDEZVOUS.search(text)
    if rendezvous is not None:
        problem = _PROBLEMS.get(rendezvous.group("name") or "", "")
        if not problem:
            problem = (
                "closed" if "closed" in (rendezvous.group("state") or "") else "timeout" if "timed out" in text else ""
            )
        if problem:
            data = {"problem": problem}
            if rendezvous.group("run_id"):
                data["run_id"] = rendezvous.group("run_id")
            parting = _PARTING.search(text)
            if parting is not None:
                data["warned"] = "shutdown" if parting.group("shutdown") else "keep-alive"
            yield Said("elastic.rendezvous", data)
    restart = _RESTART.search(text)
    if restart is not None:
        yield Said("elastic.restart", fields(restart, ("attempts_left",)))
    elif _NEW_NODES.search(text):
        yield Said("elastic.restart", {"reason": "new nodes"})
    if _FINISHED.search(text):
        yield Said("elastic.finished", {})


def error_file(document: bytes) -> Optional[Said]:
    """The event of an error.json; None when the bytes are not one."""
    try:
        outer = json.loads(document.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    inner = outer.get("message") if isinstance(outer, dict) else None
    if isinstance(inner, str):
        inner = {"message": inner}
    if not isinstance(inner, dict) or not isinstance(inner.get("message"), str):
        return None
    extra = inner.get("extraInfo")
    extra = extra if isinstance(extra, dict) else {}
    data: Data = {"message": inner["message"][:2000]}
    stack = extra.get("py_callstack")
    if isinstance(stack, str):
        data.update(exceptions.of_text(stack))
    else:
        data.update(exceptions.headline(inner["message"]))
    data["message"] = inner["message"][:2000]
    at = number(str(extra.get("timestamp", "")))
    return Said("elastic.error_file", data, at=None if at is None else float(at))


FAMILY = Family(
    "elastic",
    (
        b"torchelastic.worker.status.FAILED",
        b"failed (exitcode:",
        b") received by PID ",
        b"closing signal",
        b"via signal",
        b"Unable to shutdown process",
        b"did not exit after",
        b"uninterruptible sleep",
        b"endezvous",
        b"got signal:",
        b"death signal",
        b"termination signal",
        b"attempts left",
        b"will restart worker group",
        b"orker group",
    ),
    read,
)
