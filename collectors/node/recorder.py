"""Finds the flight recorder dumps of the ranks on this node, and asks running ranks for one where they can be asked.

torch writes a dump to ``<stem><rank>``. The stem is TORCH_FR_DUMP_TEMP_FILE (since 2.9) or
TORCH_NCCL_DEBUG_INFO_TEMP_FILE, else ``${XDG_CACHE_HOME:-~/.cache}/torch/comm_lib_trace_rank_``, in older
releases ``/tmp/nccl_trace_rank_``. A rank that was started with TORCH_NCCL_DEBUG_INFO_PIPE_FILE listens on
``<stem><rank>.pipe``: one byte makes it dump, and the job goes on (ProcessGroupNCCL.hpp and FlightRecorder.hpp of
torch 2.13).
"""

from __future__ import annotations

import base64
import os
import stat
import sys
import time
from typing import Dict, List, NamedTuple, Tuple

from collectors.node import environ, lifeline, wire
from collectors.node.files import read_or_none
from collectors.samples.asked import RecorderFile

STEMS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
PIPES = ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE",)
SIZE_LIMIT = 64 << 20
"""A dump of 2,000 entries with stacks has some megabytes."""
ANSWER_SECONDS = 6.0
"""A rank looks at its pipe once a second and writes in one go."""
DONE = -1
"""Rank of the line that ends the answer."""


class Places(NamedTuple):
    """Where one rank's dump may be, most likely first, and its pipe."""

    files: Tuple[str, ...]
    pipe: str


def places(env: Dict[str, str], rank: int) -> Places:
    """Paths that a rank's environment makes its dump and its pipe."""
    stems = [env[name] for name in STEMS if env.get(name)]
    if not stems:
        cache = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", ""), ".cache")
        stems = [os.path.join(cache, "torch", "comm_lib_trace_rank_"), "/tmp/nccl_trace_rank_"]
    pipes = [env[name] for name in PIPES if env.get(name)]
    return Places(tuple("%s%d" % (stem, rank) for stem in stems), "%s%d.pipe" % (pipes[0], rank) if pipes else "")


def modified(path: str) -> float:
    """Time of a file's last change; 0 where there is none."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def ask(pipe: str) -> str:
    """Write the one byte that asks for a dump; the reason why that was not possible, or nothing.

    Without blocking: nobody reads the pipe of a rank whose monitor thread is gone.
    """
    try:
        if not stat.S_ISFIFO(os.stat(pipe).st_mode):
            return "%s is no pipe" % pipe
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return "%s: %s" % (pipe, os.strerror(error.errno or 0))
    try:
        os.write(descriptor, b"1")
    except OSError as error:
        return "%s: %s" % (pipe, os.strerror(error.errno or 0))
    finally:
        os.close(descriptor)
    return ""


def settled(path: str, since: float, deadline: float) -> bool:
    """Wait until a file that was changed after ``since`` no longer grows; False when the time is up."""
    size = -1
    while time.monotonic() < deadline:
        if modified(path) > since:
            now = os.path.getsize(path)
            if now == size and now > 0:
                return True
            size = now
        time.sleep(0.2)
    return False


class Wanted(NamedTuple):
    """One rank whose dump is wanted, and what came of asking for it."""

    rank: int
    pid: int
    started: float
    places: Places
    before: float
    """Time of the newest dump before asking."""
    asked: bool
    why: str


def request(rank: int, pid: int, started: float, fresh: bool) -> Wanted:
    """Find a rank's places and, for a fresh dump, ask for it; all ranks are asked before any is waited for."""
    data = read_or_none("/proc/%d/environ" % pid)
    if data is None:
        return Wanted(
            rank, pid, started, Places(("",), ""), 0.0, False, "the environment of pid %d may not be read" % pid
        )
    found = places(environ.parse(data), rank)
    before = modified(found.files[0])
    if not fresh:
        return Wanted(rank, pid, started, found, before, False, "")
    why = ask(found.pipe) if found.pipe else "the job was started without TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
    return Wanted(rank, pid, started, found, before, not why, why)


def collect(wanted: Wanted, deadline: float) -> RecorderFile:
    """One rank's dump: the fresh one that was asked for, else what lies there from this run."""
    rank, pid, _, found, before, asked, why = wanted
    if asked and not settled(found.files[0], before, deadline):
        why = "asked, but no dump came: its monitor thread does not run any more"
    for path in found.files:
        at = modified(path)
        if not at:
            continue
        if at < wanted.started:
            why = why or "%s is of an earlier run" % path
            continue
        content = read_or_none(path, SIZE_LIMIT)
        if content:
            text = base64.b64encode(content).decode("ascii")
            return RecorderFile(rank, pid, path, at, text, found.pipe, why)
        why = "%s may not be read, or is empty" % path
    return RecorderFile(rank, pid, found.files[0], None, "", found.pipe, why or "no dump was written")


def main(arguments: Dict[str, object]) -> None:
    """Entry. ``ranks``: [rank, pid, start time] each, ``fresh``: whether to ask the ranks for a new dump."""
    lifeline.prepare(30)
    lifeline.end_with_stdin()
    ranks = arguments.get("ranks")
    rows: List[List[float]] = ranks if isinstance(ranks, list) else []
    fresh = bool(arguments.get("fresh"))
    wanted = [request(int(rank), int(pid), float(started), fresh) for rank, pid, started in rows]
    deadline = time.monotonic() + ANSWER_SECONDS
    for one in wanted:
        sys.stdout.buffer.write(wire.encode(collect(one, deadline)))
    sys.stdout.buffer.write(wire.encode(RecorderFile(DONE, 0, "", None, "", "", "")))
    sys.stdout.buffer.flush()
    lifeline.leave()
