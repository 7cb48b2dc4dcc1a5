"""Whether torch's debug server runs in a process: it is known by its threads, without a word to it."""

from __future__ import annotations

from collectors.node.files import list_folder, read_or_none

THREAD = b"pt_workerserver"


def has_server(pid: int, proc: str = "/proc") -> bool:
    """Whether a thread of the process serves."""
    folder = "%s/%d/task" % (proc, pid)
    return any(
        (read_or_none("%s/%s/comm" % (folder, thread)) or b"").strip() == THREAD for thread in list_folder(folder)
    )
