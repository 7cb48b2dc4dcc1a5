"""Asks processes of this node for CUDA core dumps, and cuda-gdb, where there is one, which kernels they show.

cuda-gdb reads a file that the rank's user wrote, so it runs as that user. The dumps stay where the rank's settings say.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from typing import Dict, NamedTuple, Optional

from collectors.node import watchdog
from collectors.node.child import run
from collectors.node.files import read_or_none, text
from collectors.node.processes import environ, owner, process_state
from collectors.node.say import say
from collectors.node.source import Absent
from collectors.node.stacks import cuda_core
from collectors.samples.core_dump import refusal

READ_SECONDS = 60.0
READ_LIMIT = 1 << 17
"""Bytes of what cuda-gdb prints; as many characters are taken over there (``collectors/fleet/bounds.py``)."""
USUAL = "/usr/local/cuda/bin/cuda-gdb"


class CoreDumped(NamedTuple):
    """What became of one request; pid -1 ends the answer."""

    rank: int
    pid: int
    path: str
    """The dump, as the rank names it; empty where there is none."""
    size: int
    shown: str
    """What cuda-gdb printed of it."""
    why: str
    """Why there is no dump, or nothing that reads it."""
    ended: bool = False
    """The rank is gone since it wrote its dump."""


def ask(rank: int, pid: int, seconds: float) -> CoreDumped:
    """One rank."""

    def none(why: str) -> CoreDumped:
        return CoreDumped(rank, pid, "", 0, "", why)

    whose = owner.owner_of(pid)
    data = read_or_none("/proc/%d/environ" % pid)
    if whose is None or data is None:
        return none("it is gone, or its environment may not be read")
    env = environ.parse(data)
    why = refusal(env)
    if why:
        return none(why)
    found = cuda_core.places(pid, process_state.identity(pid).own_pid or pid, env)
    if found is None:
        return none("it has no such pipe open: CUDA was initialised before the setting, or not at all")
    # before it is asked: the driver may end it, and of who is gone nothing can be told
    readable = owner.may_be_imitated(pid, whose, within=True)
    since = time.time()
    why = cuda_core.trigger(found.pipe, whose.uid)
    if why:
        return none(why)
    dump = cuda_core.written(found.pattern, since, seconds, whose.uid)
    if dump is None:
        return none("asked, and no dump came in %g s" % seconds)
    shown, why = _read(dump.path, whose) if readable else ("", "it is root's of a container: read it there")
    return CoreDumped(rank, pid, dump.path, dump.size, shown, why, owner.owner_of(pid) is None)


def _read(path: str, whose: owner.ProcessOwner) -> "tuple[str, str]":
    """What cuda-gdb shows of a dump, or why nothing does."""
    tool: Optional[str] = shutil.which("cuda-gdb") or (USUAL if os.access(USUAL, os.X_OK) else None)
    if tool is None:
        return "", "no cuda-gdb on this node reads it"
    words = [tool, "--batch", "-nx", "-ex", "target cudacore %s" % path, "-ex", "info cuda kernels"]
    try:
        done = run(words, READ_SECONDS, READ_LIMIT, bare=True, become=owner.becoming(whose))
    except Absent as error:
        return "", str(error)
    shown = text((done.stdout + done.stderr)[:READ_LIMIT])
    if done.status is None:
        return shown, "cuda-gdb was ended after %g s or %d KB" % (READ_SECONDS, READ_LIMIT >> 10)
    return shown, "" if done.status == 0 else "cuda-gdb ended with %d" % done.status


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``ranks``: ``[rank, pid]`` of each; ``seconds`` to wait for each dump."""
    ranks, seconds = arguments["ranks"], float(str(arguments["seconds"]))
    assert isinstance(ranks, list)
    threads = [threading.Thread(target=lambda rank=rank, pid=pid: say(ask(rank, pid, seconds))) for rank, pid in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(CoreDumped(-1, -1, "", 0, "", ""))
