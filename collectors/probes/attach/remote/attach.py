"""Has ranks of this node write down their stacks and their flight recorder, by Python 3.14's ``sys.remote_exec``.

All at once, a thread each: one whose main thread is in a C call does not answer, and is waited for as long as was
said. What each wrote comes back here and is removed there.
"""

from __future__ import annotations

import base64
import threading
import time
from typing import Dict, List

from collectors.node import watchdog
from collectors.node.processes import process_state
from collectors.node.say import say
from collectors.node.stacks import own_python, served_stacks
from collectors.samples.asked import RecorderFile
from collectors.samples.stacks import StackDump, ThreadStack

METHOD = "remote exec"
LATE = (
    "its main thread came to no Python instruction in %g s: it is inside a call of C (CUDA, NCCL, a lock); the request "
    "was taken back"
)


def attach(rank: int, pid: int, seconds: float) -> None:
    """Ask one rank, and say what it wrote: a look at its stacks, and its recorder's dump."""
    began = time.time()
    try:
        said = own_python.run(pid, "send", seconds)
        why = str(said.get("why", ""))
        why = LATE % seconds if why == "late" else why
    except OSError as error:
        said, why = {}, error.strerror or str(error)
    state = process_state.of(pid)
    text = base64.b64decode(str(said.get("stacks", ""))).decode("utf-8", "replace")
    found = served_stacks.threads(text, pid, state is not None and state.state == "R")
    _without_itself(found)
    wrong = "" if found else "failed: %s" % (why or said.get("stacks_why") or "it wrote no stacks")
    say(
        StackDump(
            pid, pid, time.time(), METHOD if found else "none", state.state if state else "",
            state.wchan if state else "", state.syscall if state else "", state.cpu if state else 0.0, wrong, found,
        )
    )  # fmt: skip
    data = str(said.get("recorder", ""))
    missing = "" if data else why or str(said.get("recorder_why") or "it wrote no dump")
    say(RecorderFile(rank, pid, "sys.remote_exec", began if data else None, data, "", missing))


def _without_itself(found: List[ThreadStack]) -> None:
    """Take the frames of the script from the main thread's: they are ours."""
    for place, one in enumerate(found):
        own = [number for number, frame in enumerate(one.frames[:8]) if frame.file == "<string>"]
        if own:
            found[place] = one._replace(frames=one.frames[own[-1] + 1 :])


@watchdog.program
def main(arguments: Dict[str, object]) -> None:
    """Entry. ``ranks``: ``[rank, pid]`` of each; ``seconds`` to wait for each. Ends with a file of rank -1."""
    ranks, seconds = arguments["ranks"], float(str(arguments["seconds"]))
    assert isinstance(ranks, list)
    threads = [threading.Thread(target=attach, args=(rank, pid, seconds)) for rank, pid in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(RecorderFile(-1, 0, "", None, "", "", ""))
