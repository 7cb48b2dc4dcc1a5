"""Runs a program among the processes of a container: py-spy's native frames need the numbers that threads have there.

py-spy takes a thread's number from the process's own memory, and asks the kernel for its registers by it: in another
PID namespace that number is somebody else's, or nobody's. So it runs in the namespace of the process, with a /proc of
that namespace in a mount namespace of its own. Only root may; where it cannot, the program runs as it would have.

It is one of the container's processes then, and has root's rights on the node: who may trace others there could take it
over, and the node with it. Hence :func:`exposed`.
"""

from __future__ import annotations

import sys
from typing import List

from collectors.node.files import link, list_folder, read_or_none
from collectors.node.processes.capabilities import SYS_ADMIN, SYS_PTRACE, of
from collectors.node.processes.procfs import colon_field

KEPT_OUT = (
    "native frames, by --via docker or kubectl: others in its container may trace, and would get root's rights here "
    "with a py-spy that root runs among them"
)
"""What would help where a process is :func:`exposed`."""
_ENTER = """
import ctypes, os, sys
pid, inner, program = sys.argv[1:4]
words = sys.argv[3:]
call = ctypes.CDLL(None, use_errno=True)
def must(done):
    if done != 0:
        raise OSError(ctypes.get_errno(), "no way in")
try:
    spy = os.open(program, os.O_PATH)
    space = os.open("/proc/%s/ns/pid" % pid, os.O_RDONLY)
    must(call.setns(space, 0x20000000))
except (OSError, AttributeError):
    os.execv(program, words)
child = os.fork()
if child:
    status = os.waitpid(child, 0)[1]
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
try:
    call.prctl(1, 9, 0, 0, 0)
    must(call.unshare(0x20000))
    must(call.mount(b"none", b"/", None, ctypes.c_ulong(0x44000), None))
    must(call.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(0), None))
    os.execve(spy, [inner if word == pid else word for word in words], os.environ)
except OSError as error:
    sys.stderr.write("Failed to get stack traces: %s" % error)
    os._exit(1)
"""


def command(pid: int, own_pid: int, words: List[str]) -> List[str]:
    """``words``, that name a process by ``pid``, so that they run where it is known as ``own_pid``."""
    return [sys.executable, "-I", "-S", "-B", "-c", _ENTER, str(pid), str(own_pid), *words]


def exposed(pid: int, proc: str = "/proc") -> bool:
    """True where somebody beside this process, in its container, may trace others but is not the node's root anyway.

    ``docker run --cap-add SYS_PTRACE`` makes such containers. What a process may at the most shrinks with each that it
    starts, so where nobody may now, nobody will. Who is of another user namespace has his rights in that alone; and
    whoever may mount in ours, as in a privileged container, has the node already.
    """
    theirs, ours = (link("%s/%s/ns/pid" % (proc, one)) for one in (pid, "self"))
    users = link(proc + "/self/ns/user")
    depth = len(colon_field(read_or_none("%s/%d/status" % (proc, pid)) or b"", b"NSpid").split())
    for name in list_folder(proc):
        folder = "%s/%s" % (proc, name)
        if not name.isdigit() or link(folder + "/ns/pid") == ours or link(folder + "/ns/user") != users:
            continue
        status = read_or_none(folder + "/status") or b""
        nested = len(colon_field(status, b"NSpid").split()) > depth  # it may have been given the outer one's /proc
        if not nested and link(folder + "/ns/pid") != theirs:
            continue
        may = of(status)
        if may >> SYS_PTRACE & 1 and not may >> SYS_ADMIN & 1:
            return True
    return False
