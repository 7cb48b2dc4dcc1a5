"""Runs a program among the processes of a container: py-spy's native frames need the numbers that threads have there.

py-spy takes a thread's number from the process's own memory, and asks the kernel for its registers by it: in another
PID namespace that number is somebody else's, or nobody's. So it runs in the namespace of the process, with a /proc of
that namespace in a mount namespace of its own. Only root may; where it cannot, the program runs as it would have.
"""

from __future__ import annotations

import sys
from typing import List

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
