"""Finds the flight recorder dumps of the ranks on this node, and asks running ranks for one where they can be asked.

torch writes a dump to ``<stem><rank>``. The stem is TORCH_FR_DUMP_TEMP_FILE (since 2.9), TORCHCOMM_FR_DUMP_TEMP_FILE
(TorchComms) or TORCH_NCCL_DEBUG_INFO_TEMP_FILE, else ``${XDG_CACHE_HOME:-~/.cache}/torch/comm_lib_trace_rank_``, in
older releases ``/tmp/nccl_trace_rank_``. A rank that was started with TORCH_NCCL_DEBUG_INFO_PIPE_FILE listens on
``<stem><rank>.pipe``: one byte in the pipe makes it dump, and the job goes on (ProcessGroupNCCL.hpp and
FlightRecorder.hpp of torch 2.13).
"""

from __future__ import annotations

import base64
import errno
import os
import stat
import time
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from collectors.node import watchdog
from collectors.node.files import link, opened, read_named, read_or_none
from collectors.node.processes import environ, pages
from collectors.node.processes.launch import owner_of
from collectors.node.processes.namespaces import seen_by
from collectors.node.wire import say
from collectors.samples.asked import RecorderFile

STEMS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCHCOMM_FR_DUMP_TEMP_FILE")
PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
SIZE_LIMIT = 64 << 20
"""A dump of 2,000 entries with stacks has some megabytes."""
NODE_LIMIT = 128 << 20
"""Bytes of dumps that are sent of one node: whoever asks has as much memory for each of its nodes. The rest is said."""
ANSWER_SECONDS = 6.0
"""A rank looks at its pipe once a second and writes in one go."""
DONE = -1
"""Rank of the line that ends the answer."""


def places(env: Mapping[str, str], rank: int) -> Tuple[List[str], str]:
    """Paths that a rank's environment makes its dump, most likely first, and its pipe, as the rank names them."""
    stems = [env[name] for name in STEMS if env.get(name)]
    if not stems:
        cache = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", ""), ".cache")
        stems = [os.path.join(cache, "torch", "comm_lib_trace_rank_"), "/tmp/nccl_trace_rank_"]
    return ["%s%d" % (stem, rank) for stem in stems], env.get(PIPE, "")


def here(pid: int, path: str, proc: str = "/proc") -> str:
    """A path of a process as this side can open it: one in a container, or a relative path, names another file here."""
    if not path.startswith("/"):
        path = os.path.join(link("%s/%d/cwd" % (proc, pid)), path)
    return seen_by(pid, path, proc)


def _stat(path: str) -> Optional[os.stat_result]:
    try:
        return os.stat(path)
    except OSError:  # not there: the rank's user may make it and take it away at any time
        return None


def ask(pipe: str, uid: int = 0) -> str:
    """Write the one byte that asks for a dump; the reason why that was not possible, or nothing.

    Without blocking: nobody reads the pipe of a rank whose monitor thread is gone. What is written to is what was
    looked at: the name is the rank's user's, who may put another file there in between.
    """
    try:
        descriptor = opened(pipe, lambda one: stat.S_ISFIFO(one.st_mode) and uid in (0, one.st_uid), os.O_WRONLY)
        try:
            os.write(descriptor, b"1")
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return "%s is no pipe of the rank's" % pipe
        return "%s: %s" % (pipe, os.strerror(error.errno or 0))
    return ""


class WantedDump(NamedTuple):
    """One rank whose dump is wanted, and what came of asking for it."""

    rank: int
    pid: int
    started: float
    files: List[str]
    """Where its dump may be, most likely first, and its pipe, as this side can open them."""
    pipe: str = ""
    uid: int = 0
    """Who must be able to read its dump, and own its pipe: the rank's environment names them."""
    before: float = 0.0
    """Time of the newest dump before asking."""
    asked: bool = False
    why: str = ""

    def file(self, path: str, why: str, at: Optional[float] = None, data: bytes = b"") -> RecorderFile:
        """What is sent of it."""
        return RecorderFile(self.rank, self.pid, path, at, base64.b64encode(data).decode("ascii"), self.pipe, why)


def request(rank: int, pid: int, started: float, fresh: bool) -> WantedDump:
    """Find a rank's places and, for a fresh dump, ask for it; all ranks are asked before any is waited for."""
    data = read_or_none("/proc/%d/environ" % pid)
    if data is None:
        return WantedDump(rank, pid, started, [""], why="the environment of pid %d may not be read" % pid)
    named, stem = places(environ.parse(data), rank)
    stem = stem or pages.told_pipe(pid)  # it may have opened one since its start
    pipe = here(pid, "%s%d.pipe" % (stem, rank)) if stem else ""
    files = [here(pid, path) for path in named]
    found, uid, why = _stat(files[0]), _user_of(pid), ""
    if fresh:
        why = ask(pipe, uid) if pipe else "the job was started without " + PIPE
    before = 0.0 if found is None else found.st_mtime
    return WantedDump(rank, pid, started, files, pipe, uid, before, fresh and not why, why)


def _user_of(pid: int) -> int:
    """As root the rank's user, -1 where it has no single one; 0, who may read all, where the kernel sees to it."""
    found = owner_of(pid)
    return 0 if os.geteuid() != 0 else -1 if found is None else found.uid


def settled(path: str, since: float, deadline: float) -> bool:
    """Wait until a file that was changed after ``since`` no longer grows; False when the time is up."""
    size = 0
    while time.monotonic() < deadline:
        found = _stat(path)
        if found is not None and found.st_mtime > since:
            if found.st_size == size > 0:
                return True
            size = found.st_size
        time.sleep(0.2)
    return False


def collect(wanted: WantedDump, deadline: float, room: int) -> Tuple[RecorderFile, int]:
    """One rank's dump, and its bytes: the fresh one that was asked for, else what lies there from this run.

    ``room`` bytes may be sent; what is larger is left out, and said.
    """
    why = wanted.why
    if wanted.asked and not settled(wanted.files[0], wanted.before, deadline):
        why = "asked, but no dump came: its monitor thread does not run any more"
    for path in wanted.files:
        found = _stat(path)
        if found is None:
            continue
        if found.st_mtime < wanted.started:
            why = why or "%s is of an earlier run" % path
            continue
        # the rank says where its dump is: root must not be made to read what the rank's user may not
        data = read_named(path, wanted.uid, SIZE_LIMIT + 1) or b""
        if len(data) > min(SIZE_LIMIT, room):
            much = "of a dump no more than %d MB are sent, of a node %d" % (SIZE_LIMIT >> 20, NODE_LIMIT >> 20)
            return wanted.file(path, "%s was left out: %s" % (path, much)), 0
        if data:
            return wanted.file(path, why, found.st_mtime, data), len(data)
        why = "%s may not be read, is empty, or is not the rank's" % path
    return wanted.file(wanted.files[0], why or "no dump was written"), 0


def dumps(ranks: Sequence[Sequence[float]], fresh: bool) -> Iterator[RecorderFile]:
    """What each of these ranks has: number, pid and start time each; together no more than may be sent of one node."""
    wanted = [request(int(rank), int(pid), float(started), fresh) for rank, pid, started in ranks]
    deadline = time.monotonic() + ANSWER_SECONDS
    room = NODE_LIMIT
    for one in wanted:
        file, size = collect(one, deadline, room)
        room -= size
        yield file


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``ranks``: [rank, pid, start time] each, ``fresh``: whether to ask the ranks for a new dump."""
    ranks = arguments.get("ranks")
    rows: List[List[float]] = ranks if isinstance(ranks, list) else []
    for file in dumps(rows, bool(arguments.get("fresh"))):
        say(file)
    say(RecorderFile(DONE, 0, "", None, "", "", ""))
