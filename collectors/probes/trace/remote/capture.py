"""Asks ranks of this node for a trace of some seconds and reduces it as it comes; files are taken away again."""

from __future__ import annotations

import os
import time
from typing import Callable, Dict, List, Optional, Sequence

from collectors.node.child import run
from collectors.node.processes.owner import owner_of
from collectors.node.source import Absent
from collectors.probes.trace.remote import loose
from collectors.probes.trace.remote.files import TraceFile, reason
from collectors.probes.trace.remote.reduction import Reduction
from collectors.probes.trace.remote.scan import BadTrace, EventScanner
from collectors.probes.trace.remote.ways import TraceWay
from collectors.samples.traces import RankTrace

WRITING = 90.0
"""Seconds that a rank may take to write its trace, beyond those that it traces."""
DYNO_SECONDS = 15.0
FOLDER = "/tmp"
_STEP = 0.2


def unread(path: str, why: str) -> RankTrace:
    """Instead of a trace that cannot be read."""
    return loose.with_rank(Reduction().result({}, path, 0, 0, why))


def reduced(read: Callable[[int], bytes], path: str, size: int, why: Callable[[], str]) -> RankTrace:
    """The figures of a stream; ``why`` tells afterwards why it ended too soon."""
    scanner, reduction = EventScanner(read, loose.decode), Reduction()
    try:
        for events in scanner:
            loose.take(reduction, events)
    except BadTrace as error:
        return unread(path, "%s%s" % (error, ": " + why() if why() else ""))
    cut = why() or ("" if scanner.whole else "it ends before its last event")
    return loose.with_rank(reduction.result(scanner.about, path, size, scanner.damaged, cut))


def from_file(path: str, new: Optional[int] = None) -> RankTrace:
    """The figures of one file, or why there are none; ``new`` as in :class:`TraceFile`."""
    try:
        with TraceFile(path, new) as file:
            return reduced(file.read, path, file.size, lambda: file.why)
    except OSError as error:
        return unread(path, reason(error))


def dyno_command(pids: Sequence[int], seconds: float, log: str) -> List[str]:
    """Words that ask dynolog for a trace of processes of its node; each writes ``log`` with its pid in the name."""
    return [
        "dyno", "gputrace", "--pids", ",".join(map(str, pids)), "--process-limit", str(len(pids)),
        "--duration-ms", str(int(seconds * 1000)), "--log-file", log,
    ]  # fmt: skip


def log_of(token: str) -> str:
    """Where the ranks of this node shall write."""
    return "%s/hangtop-%s.json" % (FOLDER, token)


def from_dynolog(ways: Sequence[TraceWay], seconds: float, token: str, say: Callable[[RankTrace], None]) -> None:
    """Traces of several ranks by dynolog, each told as soon as it is written whole; the files are removed."""
    log = log_of(token)
    waiting: Dict[str, TraceWay] = {"%s_%d.json" % (log[: -len(".json")], way.pid): way for way in ways}
    owners = {way.pid: owner_of(way.pid) for way in ways}
    why = _dyno(dyno_command([way.pid for way in ways], seconds, log))
    until = time.monotonic() + seconds + WRITING
    while waiting and not why and time.monotonic() < until:
        time.sleep(_STEP)
        # the file gets its name when it is whole: Kineto writes to another one first
        for path in [path for path in waiting if os.path.lexists(path)]:
            way = waiting.pop(path)
            owner = owners[way.pid]
            strange = "whose process it is cannot be told: its trace is not read"
            trace = unread(path, strange) if owner is None else from_file(path, owner.uid)
            say(_removed(path, trace)._replace(rank=way.rank))
    for path, way in waiting.items():
        say(unread(path, why or "asked, but it wrote no trace in %.0f s" % (seconds + WRITING))._replace(rank=way.rank))


def _dyno(words: Sequence[str]) -> str:
    """Run dyno; why it failed, or nothing."""
    try:
        ended = run(words, DYNO_SECONDS)
    except Absent as reason:
        return str(reason)
    if ended.status is None:
        return "dyno gave no answer in %.0f s" % DYNO_SECONDS
    said = ended.stderr.decode("utf-8", "replace").strip()[-300:]
    return "dyno failed: %s" % (said or "status %d" % ended.status) if ended.status else ""


def _removed(path: str, trace: RankTrace) -> RankTrace:
    try:
        os.unlink(path)
    except OSError as error:
        left = "it is left there: %s" % os.strerror(error.errno or 0)
        return trace._replace(why="%s; %s" % (trace.why, left) if trace.why else left)
    return trace
