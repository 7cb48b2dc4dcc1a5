"""What processes on a node may be: ranks and others with odd names, odd ends and odd places, and very many of them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.fault import Family
from tests.faults.limits import streams
from tests.faults.scene import MARK, Scene

fault = Family("strangers")

CGROUPS = Path("/sys/fs/cgroup/freezer")
CALL = "import ctypes, os, signal, sys, time\ncall = ctypes.CDLL(None).prctl\n"
HOLD = 6.0
KNOWN = r"RankProcess\(pid=\d+.*rank=17,"
"""The further rank is seen."""


def _rank(code: str, *wrapped: str) -> Callable[[Scene], None]:
    """Run this as a further rank of the job."""

    def begin(scene: Scene) -> None:
        env = {"HX_CASE": scene.job.case, "RANK": "17", "WORLD_SIZE": "18"}
        _spawned(scene, [*wrapped, sys.executable, "-c", CALL + code], env)

    return begin


def _stranger(code: str) -> Callable[[Scene], None]:
    """Run this as somebody who has nothing to do with the job."""
    return lambda scene: _spawned(scene, [sys.executable, "-c", CALL + code], {MARK: "1"})


def _spawned(scene: Scene, words: list[str], env: dict[str, str]) -> None:
    process = scene.struck.spawn(words, env=env)
    names = set(env.items())

    def end() -> None:
        for one in scene.struck.processes():
            if names <= set(one.environ().items()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one.host_pid, signal.SIGKILL)
        process.kill()
        process.wait()

    scene.undo.callback(end)


HOSTILE = r"""
call(15, b") R 1 1\n(\x1b[2J", 0, 0, 0)
time.sleep(600)
"""
TITLED = """
libc = ctypes.CDLL(None)
size = 0
with open("/proc/self/stat") as file:
    fields = file.read().rpartition(")")[2].split()
begin, end = int(fields[45]), int(fields[46])
time.sleep(3)
ctypes.memset(begin, 0x20, end - begin)
ctypes.memmove(begin, b"trainer: step 1", 15)
call(15, b"trainer: step", 0, 0, 0)
time.sleep(600)
"""
AGAIN = """
if len(sys.argv) < 2:
    time.sleep(3)
    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", "again"])
"""
ZOMBIES = """
for _ in range(500):
    if os.fork() == 0:
        os._exit(0)
time.sleep(600)
"""
DESCRIPTORS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (min(20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
held = [os.dup(0) for _ in range(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 50)]
time.sleep(600)
"""
NOWHERE = """
os.mkdir("/tmp/hangtop-test-gone")
os.chdir("/tmp/hangtop-test-gone")
os.rmdir("/tmp/hangtop-test-gone")
for descriptor in (0, 1, 2):
    os.close(descriptor)
time.sleep(600)
"""
BURST = """
import random
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    for _ in range(40):
        if os.fork() == 0:
            time.sleep(random.random())
            os._exit(0)
    time.sleep(0.2)
"""
MAPS = """
import mmap
held = [mmap.mmap(-1, 4096, prot=(1 if n % 2 else 3)) for n in range(30000)]
time.sleep(600)
"""
LEADERLESS = """
import threading
threading.Thread(target=time.sleep, args=(600,)).start()
time.sleep(4)
ctypes.CDLL(None).pthread_exit(None)
"""

fault("a rank whose name ends the fields of its stat line", KNOWN)(streams(_rank(HOSTILE), hold=HOLD, says=KNOWN))
fault("a rank that writes a title over its command line", KNOWN)(streams(_rank(TITLED), hold=HOLD, says=KNOWN))
fault("a rank that becomes another program", KNOWN)(streams(_rank(AGAIN), hold=HOLD, says=KNOWN))
fault("a rank with 20,000 descriptors", KNOWN)(streams(_rank(DESCRIPTORS), hold=HOLD, says=KNOWN))
fault("a rank in a folder that is gone, without standard output", KNOWN)(streams(_rank(NOWHERE), hold=HOLD, says=KNOWN))
fault("a rank with 30,000 mappings", KNOWN)(streams(_rank(MAPS), hold=HOLD, says=KNOWN))
fault("a rank whose first thread ends", KNOWN)(streams(_rank(LEADERLESS), hold=HOLD, says=KNOWN))
fault("a rank in a user namespace of its own", KNOWN)(
    streams(_rank("time.sleep(600)", "unshare", "-U", "-r"), hold=HOLD, says=KNOWN)
)
fault("500 zombies", "samples go on")(streams(_stranger(ZOMBIES), hold=HOLD))
fault("200 processes a second that come and go", "samples go on")(streams(_stranger(BURST), hold=HOLD))


NUMBER_AGAIN = """
first = os.fork()
if first == 0:
    os.execve("/bin/sleep", ["python", "600"], {**os.environ, "RANK": "17", "WORLD_SIZE": "18", "HX_CASE": %r})
time.sleep(4)
os.kill(first, 9)
os.waitpid(first, 0)
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(first - 1))
second = os.fork()
if second == 0:
    time.sleep(600)
time.sleep(600)
"""


def _number_again(scene: Scene) -> None:
    """A rank ends, and its pid is at once somebody else's who is no rank."""
    _stranger(NUMBER_AGAIN % scene.job.case)(scene)


fault("a rank's pid that is given to another at once", "RankGone")(
    streams(_number_again, hold=HOLD, says=r"^RankGone\(")
)


def _frozen(scene: Scene) -> None:
    """The rank of this node, by the freezer of version 1; thawed afterwards."""
    group = CGROUPS / f"hangtop-{os.getpid()}"
    group.mkdir(exist_ok=True)
    _, process = scene.job.processes(1)[0]
    (group / "cgroup.procs").write_text(str(process.host_pid))

    def thaw() -> None:
        (group / "freezer.state").write_text("THAWED")
        for pid in (group / "cgroup.procs").read_text().split():
            (CGROUPS / "cgroup.procs").write_text(pid)
        time.sleep(0.2)
        group.rmdir()

    scene.undo.callback(thaw)
    (group / "freezer.state").write_text("FROZEN")


fault("a rank frozen by its control group", r"wchan='__?refrigerator'|state='D'")(
    streams(_frozen, hold=HOLD, says=r"RankPulse\(.*(wchan='__?refrigerator'|state='D')")
)
