"""The program that is sent to a node: reads the traces that lie there, or has the node's ranks traced by dynolog.

Arguments: ``patterns`` (tell which files they name), ``paths`` (read these), or ``ranks`` as [rank, pid] each, with
``seconds`` and ``token`` to trace them and without to find out whether they can be traced. Every :class:`RankTrace` is
told when it is done, :class:`Done` comes last. Whatever comes on standard input re-arms the alarm that ends it.

A rank with KINETO_USE_DAEMON registers with dynolog, which listens on port 1778 and is asked by ``dyno gputrace``.
"""

from __future__ import annotations

import glob
import os
import shutil
import time
from typing import Dict, Iterable, List, NamedTuple, Sequence

from collectors.node import watchdog
from collectors.node.child import run
from collectors.node.files import read_or_none
from collectors.node.globbing import matches
from collectors.node.processes import environ
from collectors.node.processes.owner import owner_of
from collectors.node.processes.socket_tables import listening, read_tables
from collectors.node.say import say
from collectors.node.source import Absent
from collectors.probes.trace.remote.reading import TraceFile, looks_like
from collectors.probes.trace.remote.reduction import of_file, unread
from collectors.samples.traces import RankTrace

NICENESS = 9
"""Added while traces are read: that takes seconds of a core, which anybody else may have before."""
FILES = 4_096
"""Files of one search."""
HEAD = 1 << 13
"""Bytes by which a trace is told: Kineto names its schema and devices at once."""
DYNO_PORT = 1778
DYNO_SECONDS = 15.0
WRITING = 90.0
"""Seconds that a rank may take to write its trace, beyond those that it traces."""
FOLDER = "/tmp"


class ListedTrace(NamedTuple):
    """One file. The same one on shared storage has the same three on every node."""

    path: str
    size: int
    """-1 for one that cannot be looked at."""
    modified: int
    """Nanoseconds since the epoch."""


class TraceWay(NamedTuple):
    """Whether a rank can be traced."""

    rank: int
    pid: int
    why: str
    """Why it cannot be; empty where dynolog can have it traced."""


class Done(NamedTuple):
    """Nothing more comes."""

    traces: int


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry."""
    patterns, paths, ranks = map(arguments.get, ("patterns", "paths", "ranks"))
    seconds = arguments.get("seconds")
    if isinstance(patterns, list):
        for path in find([str(pattern) for pattern in patterns]):
            say(_listed(path))
    elif isinstance(paths, list):
        os.nice(NICENESS)
        for path in paths:
            say(of_file(str(path)))
    elif isinstance(ranks, list):
        ways = [way_to(int(rank), int(pid)) for rank, pid in ranks]
        if not isinstance(seconds, (int, float)):
            for way in ways:
                say(way)
        else:
            trace([way for way in ways if not way.why], float(seconds), str(arguments["token"]))
            for way in ways:
                if way.why:
                    say(unread("pid %d" % way.pid, way.why)._replace(rank=way.rank))
    say(Done(len(ranks or paths or ())))  # type: ignore[arg-type]


def find(patterns: Iterable[str]) -> List[str]:
    """Files that paths, folders and globs name, each once. A path that is given as it is comes whatever it holds.

    Of folders and globs only files count that look like traces. What names none comes as it is: reading it says why.
    """
    found: List[str] = []
    for pattern in patterns:
        path = os.path.expanduser(pattern)
        if not os.path.isdir(path) and (os.path.exists(path) or not glob.has_magic(path)):
            found.append(path)
            continue
        named = [path] if os.path.isdir(path) else matches(path)
        below = [one for folder in named if os.path.isdir(folder) for one in _under(folder)]
        files = [*(one for one in named if os.path.isfile(one)), *below]
        found += [one for one in files if may_be_trace(one)] or [path]
        if len(found) > FILES:
            break
    return list(dict.fromkeys(found))[:FILES]


def _under(folder: str) -> List[str]:
    every = matches(os.path.join(glob.escape(folder), "**"))
    return [path for path in every if path.endswith((".json", ".json.gz")) and not os.path.isdir(path)][:FILES]


def may_be_trace(path: str) -> bool:
    """Whether a file begins like a trace. One that cannot be read may be one: reading it says why not."""
    try:
        with TraceFile(path) as file:
            return looks_like(file.read(HEAD)) or bool(file.damage)
    except OSError:
        return True


def _listed(path: str) -> ListedTrace:
    try:
        status = os.stat(path)
    except OSError:
        return ListedTrace(path, -1, 0)
    return ListedTrace(path, status.st_size, status.st_mtime_ns)


def way_to(rank: int, pid: int) -> TraceWay:
    """Whether dynolog can have this rank traced."""
    data = read_or_none("/proc/%d/environ" % pid)
    if data is None:
        why = "no such process" if not os.path.isdir("/proc/%d" % pid) else "its environment may not be read"
    elif not environ.parse(data).get("KINETO_USE_DAEMON", ""):
        why = "it was started without KINETO_USE_DAEMON"
    elif shutil.which("dyno") is None:
        why = "KINETO_USE_DAEMON is set, but this node has no dyno in its PATH"
    elif not any(port == DYNO_PORT for port, _ in listening(read_tables("/proc/net"))):
        why = "KINETO_USE_DAEMON is set, but no dynolog listens on port %d" % DYNO_PORT
    else:
        why = ""
    return TraceWay(rank, pid, why)


def dyno_command(pids: Sequence[int], seconds: float, token: str) -> List[str]:
    """Words that ask dynolog for a trace of processes of its node; each adds its pid to the name of the log."""
    return [
        "dyno", "gputrace", "--pids", ",".join(map(str, pids)), "--process-limit", str(len(pids)),
        "--duration-ms", str(int(seconds * 1000)), "--log-file", "%s/hangtop-%s.json" % (FOLDER, token),
    ]  # fmt: skip


def trace(ways: Sequence[TraceWay], seconds: float, token: str) -> None:
    """Have ranks traced; each trace is told as soon as it is written whole, and its file is removed."""
    if not ways:
        return
    command = dyno_command([way.pid for way in ways], seconds, token)
    stem = command[-1][: -len(".json")]
    waiting = {"%s_%d.json" % (stem, way.pid): way for way in ways}
    owners = {way.pid: owner_of(way.pid) for way in ways}
    why = _dyno(command)
    until = time.monotonic() + seconds + WRITING
    while waiting and not why and time.monotonic() < until:
        time.sleep(0.2)
        # The file gets its name when it is whole: Kineto writes to another one first.
        for path in [path for path in waiting if os.path.lexists(path)]:
            way = waiting.pop(path)
            owner = owners[way.pid]
            strange = "whose process it is cannot be told: its trace is not read"
            found = unread(path, strange) if owner is None else of_file(path, owner.uid)
            say(_removed(path, found)._replace(rank=way.rank))
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
