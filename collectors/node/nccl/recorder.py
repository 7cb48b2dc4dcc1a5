"""Finds the flight recorder dumps of this node's ranks, and requests fresh dumps from ranks with a dump pipe.

torch writes a dump to ``<stem><rank>``. The stem is TORCH_FR_DUMP_TEMP_FILE (since 2.9), TORCHCOMM_FR_DUMP_TEMP_FILE
(TorchComms) or TORCH_NCCL_DEBUG_INFO_TEMP_FILE, else ``${XDG_CACHE_HOME:-~/.cache}/torch/comm_lib_trace_rank_``, in
older releases ``/tmp/nccl_trace_rank_``. A rank that was started with TORCH_NCCL_DEBUG_INFO_PIPE_FILE listens on
``<stem><rank>.pipe``: one byte in the pipe triggers a dump without disturbing the job (ProcessGroupNCCL.hpp and
FlightRecorder.hpp of torch 2.13).
"""

from __future__ import annotations

import base64
import errno
import os
import stat
import time
from typing import Any, Dict, Iterator, Optional, Sequence

from collectors.node import watchdog
from collectors.node.files import link, opened, read_named, read_or_none
from collectors.node.processes import environ, pages
from collectors.node.processes.launch import owner_of
from collectors.node.processes.namespaces import seen_by
from collectors.node.wire import say
from collectors.samples.probes import RecorderFile

STEMS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCHCOMM_FR_DUMP_TEMP_FILE")
PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
SIZE_LIMIT = 64 << 20
"""Bytes; a dump of 2,000 entries with stacks has some megabytes."""
NODE_LIMIT = 128 << 20
"""Bytes of dumps sent by one node: bounds the memory of the receiver."""
ANSWER_SECONDS = 6.0
"""Seconds to wait for fresh dumps; a rank polls its pipe once a second."""


def ask(pipe: str, uid: int = 0) -> str:
    """Write the byte that requests a dump; return the reason if that failed, else an empty text.

    Never blocks: a rank without its monitor thread does not read the pipe. The descriptor that was checked is the one
    written to, because the rank's user could replace the file in between.
    """
    try:
        descriptor = opened(pipe, lambda file: stat.S_ISFIFO(file.st_mode) and uid in (0, file.st_uid), os.O_WRONLY)
        try:
            os.write(descriptor, b"1")
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return "%s is no pipe of the rank's" % pipe
        return "%s: %s" % (pipe, os.strerror(error.errno or 0))
    return ""


class WantedDump:
    """One rank whose dump is wanted; ``started`` is its process's start, by the node's clock."""

    def __init__(self, rank: int, pid: int, started: float) -> None:
        self._rank = rank
        self._pid = pid
        self._started = started
        self._why = ""
        data = read_or_none("/proc/%d/environ" % pid)
        if data is None:
            self._why = "the environment of pid %d may not be read" % pid
        env = environ.parse(data or b"")
        cache = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", ""), ".cache")
        usual = [os.path.join(cache, "torch", "comm_lib_trace_rank_"), "/tmp/nccl_trace_rank_"]
        stems = [env[name] for name in STEMS if env.get(name)] or usual
        pipe = env.get(PIPE, "") or pages.recorder_pipe(pid)  # the rank may have opened a pipe after its start
        self._files = [self._here("%s%d" % (stem, rank)) for stem in stems if data is not None]
        self.pipe = self._here("%s%d.pipe" % (pipe, rank)) if pipe else ""
        found = owner_of(pid)
        # As root: only read what the rank's user may read (-1: no single user), because its environment names the
        # files. Otherwise the kernel checks permissions, and 0 disables our own check.
        self._uid = 0 if os.geteuid() != 0 else -1 if found is None else found.uid
        self._asked_after: Optional[float] = None
        """Modification time of its dump before a fresh one was requested; 0 without a dump."""

    def _here(self, path: str) -> str:
        """Translate a path of the rank, which may be relative or in a container, to one that opens here."""
        if not path.startswith("/"):
            path = os.path.join(link("/proc/%d/cwd" % self._pid), path)
        return seen_by(self._pid, path)

    def ask(self) -> None:
        """Request a fresh dump; call this for all ranks before waiting for any."""
        if self._files:
            found = _stat(self._files[0])
            self._why = ask(self.pipe, self._uid) if self.pipe else "the job was started without " + PIPE
            self._asked_after = None if self._why else found.st_mtime if found is not None else 0.0

    def dump(self, deadline: float, room: int) -> RecorderFile:
        """The fresh dump if one was requested, else an existing dump of this run, of at most ``room`` bytes."""
        if self._asked_after is not None and not _settled(self._files[0], self._asked_after, deadline):
            self._why = "asked, but no dump came: its monitor thread does not run any more"
        for path in self._files:
            found = _stat(path)
            if found is not None and found.st_mtime < self._started:
                self._why = self._why or "%s is of an earlier run" % path
            elif found is not None:
                # the rank's environment names the path: root must not read what the rank's user may not
                data = read_named(path, self._uid, SIZE_LIMIT + 1) or b""
                if len(data) > min(SIZE_LIMIT, room):
                    much = "of a dump no more than %d MB are sent, of a node %d" % (SIZE_LIMIT >> 20, NODE_LIMIT >> 20)
                    return self._file(path, "%s was left out: %s" % (path, much))
                if data:
                    return self._file(path, self._why, found.st_mtime, data)
                self._why = "%s may not be read, is empty, or is not the rank's" % path
        return self._file((self._files or [""])[0], self._why or "no dump was written")

    def _file(self, path: str, why: str, at: Optional[float] = None, data: bytes = b"") -> RecorderFile:
        encoded = base64.b64encode(data).decode("ascii")
        return RecorderFile(self._rank, path, at, encoded, self.pipe, why)


def _stat(path: str) -> Optional[os.stat_result]:
    try:
        return os.stat(path)
    except OSError:  # the rank's user may create and delete it at any time
        return None


def _settled(path: str, since: float, deadline: float) -> bool:
    """Wait until a file changes after ``since`` and stops growing; False if that does not happen by ``deadline``."""
    size = 0
    while time.monotonic() < deadline:
        found = _stat(path)
        if found is not None and found.st_mtime > since:
            if found.st_size == size > 0:
                return True
            size = found.st_size
        time.sleep(0.2)
    return False


def dumps(ranks: Sequence[Sequence[float]], fresh: bool) -> Iterator[RecorderFile]:
    """Dumps of ranks given as (rank, pid, start time); in total at most :data:`NODE_LIMIT` bytes."""
    wanted = [WantedDump(int(rank), int(pid), started) for rank, pid, started in ranks]
    for rank_dump in wanted if fresh else ():
        rank_dump.ask()
    deadline, room = time.monotonic() + ANSWER_SECONDS, NODE_LIMIT
    for rank_dump in wanted:
        file = rank_dump.dump(deadline, room)
        room -= len(file.data) * 3 // 4
        yield file


@watchdog.program
def main(arguments: Dict[str, Any]) -> None:
    """Entry. ``ranks``: list of [rank, pid, start time], ``fresh``: whether to request new dumps."""
    for file in dumps(arguments["ranks"], arguments["fresh"]):
        say(file)
