"""Finds the flight recorder dumps of the ranks on this node, and asks running ranks for one where they can be asked.

Where a rank's dump and its pipe are, :mod:`collectors.node.nccl.recorder_places` tells. One byte in the pipe makes it
dump, and the job goes on (ProcessGroupNCCL.hpp and FlightRecorder.hpp of torch 2.13).
"""

from __future__ import annotations

import base64
import errno
import os
import stat
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from collectors.node import watchdog
from collectors.node.files import opened, read_or_none, regular
from collectors.node.nccl.recorder_places import DumpPlaces, places
from collectors.node.processes import environ, owner, pages
from collectors.node.say import say
from collectors.samples.asked import RecorderFile

SIZE_LIMIT = 64 << 20
"""A dump of 2,000 entries with stacks has some megabytes."""
NODE_LIMIT = 128 << 20
"""Bytes of dumps that are sent of one node: whoever asks has as much memory for each of its nodes. The rest is said."""
ANSWER_SECONDS = 6.0
"""A rank looks at its pipe once a second and writes in one go."""
DONE = -1
"""Rank of the line that ends the answer."""


def modified(path: str) -> float:
    """Time of a file's last change; 0 where there is none."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def ask(pipe: str, uid: Optional[int] = None) -> str:
    """Write the one byte that asks for a dump; the reason why that was not possible, or nothing.

    Without blocking: nobody reads the pipe of a rank whose monitor thread is gone. What is written to is what was
    looked at: the name is the rank's user's, who may put another file there in between.
    """
    try:
        descriptor = opened(pipe, lambda found: _is_pipe(found, uid), os.O_WRONLY)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return "%s is no pipe of the rank's" % pipe
        return "%s: %s" % (pipe, os.strerror(error.errno or 0))
    try:
        os.write(descriptor, b"1")
    except OSError as error:
        return "%s: %s" % (pipe, os.strerror(error.errno or 0))
    finally:
        os.close(descriptor)
    return ""


def _is_pipe(found: os.stat_result, uid: Optional[int]) -> bool:
    return stat.S_ISFIFO(found.st_mode) and uid in (None, found.st_uid)


def settled(path: str, since: float, deadline: float) -> bool:
    """Wait until a file that was changed after ``since`` no longer grows; False when the time is up."""
    size = -1
    while time.monotonic() < deadline:
        try:
            found = os.stat(path)
        except OSError:  # not there yet, or taken away again: the rank's user may do both at any time
            found = None
        if found is not None and found.st_mtime > since:
            if found.st_size == size and size > 0:
                return True
            size = found.st_size
        time.sleep(0.2)
    return False


class WantedDump(NamedTuple):
    """One rank whose dump is wanted, and what came of asking for it."""

    rank: int
    pid: int
    started: float
    places: DumpPlaces
    before: float
    """Time of the newest dump before asking."""
    asked: bool
    why: str
    uid: Optional[int] = None
    """As root: who must own what is read and written, as the rank's environment names the paths. -1: nobody does."""


def request(rank: int, pid: int, started: float, fresh: bool) -> WantedDump:
    """Find a rank's places and, for a fresh dump, ask for it; all ranks are asked before any is waited for."""
    data = read_or_none("/proc/%d/environ" % pid)
    if data is None:
        return WantedDump(
            rank, pid, started, DumpPlaces(("",), ""), 0.0, False, "the environment of pid %d may not be read" % pid
        )
    found = places(environ.parse(data), rank)
    if not found.pipe:  # it may have opened one since its start
        stem = pages.told_pipe(pid)
        found = found._replace(pipe="%s%d.pipe" % (stem, rank) if stem else "")
    found = found.seen_by(pid)
    before = modified(found.files[0])
    uid = _whose(pid)
    if not fresh:
        return WantedDump(rank, pid, started, found, before, False, "", uid)
    why = ask(found.pipe, uid) if found.pipe else "the job was started without TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
    return WantedDump(rank, pid, started, found, before, not why, why, uid)


def _whose(pid: int) -> Optional[int]:
    """Uid that must own the rank's files; None where the kernel already sees to it, or where the rank is root's."""
    if os.geteuid() != 0:
        return None
    found = owner.owner_of(pid)
    return -1 if found is None else found.uid or None


def _content(path: str, uid: Optional[int]) -> bytes:
    """A dump's bytes, and one more where it is too large; none for what cannot be read or, with ``uid``, is another's.

    The rank says where its dump is: root must not be made to read what the rank's user may not.
    """
    try:
        descriptor = opened(path, lambda found: regular(found) and uid in (None, found.st_uid))
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        try:
            return file.read(SIZE_LIMIT + 1)
        except OSError:
            return b""


def _left_out(path: str, size: int, room: int) -> str:
    """Why a dump of so many bytes is not sent; empty where it is. ``room``: bytes that its node may yet send."""
    if size > SIZE_LIMIT:
        return "%s was left out: it has more than %d MB" % (path, SIZE_LIMIT >> 20)
    if size > room:
        return "%s was left out: with it the dumps of this node would have more than %d MB" % (path, NODE_LIMIT >> 20)
    return ""


def collect(wanted: WantedDump, deadline: float, room: int) -> Tuple[RecorderFile, int]:
    """One rank's dump, and its bytes: the fresh one that was asked for, else what lies there from this run.

    ``room`` bytes may be sent; what is larger is left out, and said.
    """
    rank, pid, _, found, before, asked, why, uid = wanted
    if asked and not settled(found.files[0], before, deadline):
        why = "asked, but no dump came: its monitor thread does not run any more"
    for path in found.files:
        at = modified(path)
        if not at:
            continue
        if at < wanted.started:
            why = why or "%s is of an earlier run" % path
            continue
        content = _content(path, uid)
        if content:
            return _file(wanted, path, at, content, why, room)
        why = "%s may not be read, is empty, or is not the rank's" % path
    return RecorderFile(rank, pid, found.files[0], None, "", found.pipe, why or "no dump was written"), 0


def _file(wanted: WantedDump, path: str, at: float, data: bytes, why: str, room: int) -> Tuple[RecorderFile, int]:
    """A dump as it is sent, and its bytes."""
    left_out = _left_out(path, len(data), room)
    if left_out:
        return RecorderFile(wanted.rank, wanted.pid, path, None, "", wanted.places.pipe, left_out), 0
    text = base64.b64encode(data).decode("ascii")
    return RecorderFile(wanted.rank, wanted.pid, path, at, text, wanted.places.pipe, why), len(data)


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
