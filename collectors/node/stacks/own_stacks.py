"""Stacks that a rank's own interpreter reads from outside, where py-spy knows the rank's Python too little.

Python 3.14 and newer, free-threaded builds among them (which py-spy does not read, benfred/py-spy#711): the module
``_remote_debugging`` of the same release. It reads and neither pauses nor changes the process; of the kernel it needs
the right that py-spy needs.
"""

from __future__ import annotations

from typing import List, Optional

from collectors.node.processes.process_state import identity
from collectors.node.stacks import own_python
from collectors.samples.stacks import Frame, StackDump, ThreadStack

METHOD = "own Python"
INSTEAD_OF = ("no-py-spy", "unsupported", "not-python", "failed", "torn")
_THREADS = 4096
_FRAMES = 1000


def instead(dump: StackDump) -> Optional[StackDump]:
    """The same look by the process's own interpreter.

    None where py-spy's answer stands, or the process's Python is too old. Raises :class:`OSError` with the reason.
    """
    if dump.threads or dump.error.partition(":")[0] not in INSTEAD_OF:
        return None
    python = own_python.release(dump.pid)
    if python is None or python.version < own_python.SINCE:
        return None
    said = own_python.run(dump.pid, "read", 0.0)
    found = threads(said.get("threads"), dump.pid, dump.state == "R")
    if not found:
        raise OSError(0, str(said.get("why") or "it read no thread")[:400])
    return dump._replace(threads=found, method=METHOD, error="", way_out="")


def threads(said: object, pid: int, active: bool) -> List[ThreadStack]:
    """Threads of what ``as_rank`` read; ``active`` says whether the main one runs, which it does not tell."""
    own = identity(pid).own_pid or pid
    found: List[ThreadStack] = []
    for one in said[:_THREADS] if isinstance(said, list) else []:
        number, frames = one
        main = number == own
        made = [Frame(str(name), str(file), int(line), False) for name, file, line in frames[:_FRAMES]]
        name = "MainThread" if main else ""
        found.append(ThreadStack(int(number), pid if main else int(number), name, main and active, False, made))
    return found
