"""Samples the stacks of this node's processes for some seconds with ``py-spy record``, without pausing them.

The arguments are the pids and the seconds; the output is one :class:`FlameRecording` per process. py-spy writes into a
memfd of this process: nothing is written to disk, and the data disappears when this program ends.
"""

from __future__ import annotations

import os
import resource
import zlib
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from typing import List, NamedTuple, Optional, Tuple

from collectors.node import child
from collectors.node.processes import process_state
from collectors.node.source import Absent
from collectors.node.stacks import pyspy, pyspy_output, reader
from collectors.node.wire import say

_GRACE = 10
"""Seconds that py-spy may take to start and to write its result."""

LIMIT = 16 << 20
"""Bytes of one process's folded stacks that py-spy may write, and that are sent."""


class FlameRecording(NamedTuple):
    """Recording of one process: folded stacks (py-spy's ``raw`` format), zlib-compressed in base64, or an error."""

    pid: int
    stacks: str
    error: str
    """``word: message``, as in :class:`collectors.samples.stacks.StackDump`."""


def main(arguments: Tuple[List[int], float]) -> None:
    """Answer one request."""
    pids, seconds = arguments
    spy = pyspy.find_or_borrow(pyspy.InputLines())
    # limits the files of child programs, and so the memfd that py-spy writes to
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    most = LIMIT if hard == resource.RLIM_INFINITY else min(LIMIT, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    with ThreadPoolExecutor(len(pids) or 1) as pool:
        for recording in pool.map(lambda pid: _record(pid, spy, seconds), pids):
            say(recording)


def _record(pid: int, spy: Optional[str], seconds: float) -> FlameRecording:
    """Record one process."""
    state = process_state.of(pid)
    if state is None or state.state in reader.DEAD:
        return FlameRecording(pid, "", "gone: no such process")
    if spy is None:
        return FlameRecording(pid, "", "no-py-spy: no py-spy on this node, and none to lend to it")
    memory = os.memfd_create("stacks")
    target = "/proc/%d/fd/%d" % (os.getpid(), memory)
    try:
        ended = child.run(pyspy.record_command(spy, pid, seconds, target), seconds + _GRACE)
        stacks = os.pread(memory, LIMIT, 0)
    except (Absent, OSError) as reason:
        return FlameRecording(pid, "", "failed: %s" % reason)
    finally:
        os.close(memory)
    error = ""
    if len(stacks) >= LIMIT:
        stacks = stacks[: stacks.rfind(b"\n") + 1]  # the last line may be incomplete
        error = "cut: only the first %d MB of its stacks" % (LIMIT >> 20)
    elif not stacks:
        error = "%s: %s" % pyspy_output.failure(ended.stderr) if ended.status else "timeout: py-spy wrote nothing"
        error += "; " + reader.way_out(pid) if error.startswith("denied") else ""
    return FlameRecording(pid, b64encode(zlib.compress(stacks, 6)).decode(), error)
