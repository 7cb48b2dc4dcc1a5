"""Real orphans: processes whose starter is gone and whom an init has adopted, as an earlier run leaves them.

The init is a small stand-in with systemd's name (a "child subreaper", prctl(2)), so that it does not matter what the
first process of the machine is. Whoever looks for orphans here must set ``HANGTOP_ONLY`` (see :data:`ONLY`): the
machine may have others that are none of the tests' business.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

MARK = "HX_ORPHANAGE"
"""Variable that every process from here carries."""

REAPER = """\
import ctypes, json, os, sys
libc = ctypes.CDLL(None)
libc.prctl(36, 1, 0, 0, 0)
libc.prctl(15, b"systemd", 0, 0, 0)
env, source = json.loads(sys.argv[1]), sys.argv[2]
if os.fork() == 0:
    if os.fork():
        os._exit(0)
    os.setsid()
    os.execve(sys.executable, [sys.executable, "-c", source, "train.py"], {**os.environ, **env})
os.wait()
print("ready", flush=True)
while True:
    try:
        os.wait()
    except ChildProcessError:
        sys.stdin.read()
        break
"""

SLEEP = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
LISTENING = (
    "import os, socket, time; s = socket.create_server(('0.0.0.0', 0)); "
    "print(os.getpid(), s.getsockname()[1], flush=True); time.sleep(600)"
)


def words(env: Mapping[str, str], source: str = SLEEP) -> list[str]:
    """Command that leaves an orphan behind and stays as its init; prints the orphan's words and ``ready``."""
    return [sys.executable, "-c", REAPER, json.dumps(dict(env)), source]


def said(process: subprocess.Popen[bytes]) -> list[int]:
    """The numbers that the orphan printed (its pid first), once its starter is gone."""
    assert process.stdout is not None
    lines = [process.stdout.readline().split() for _ in range(2)]
    return [int(word) for line in lines if line != [b"ready"] for word in line]


@contextmanager
def orphan(env: Mapping[str, str], source: str = SLEEP) -> Iterator[Sequence[int]]:
    """An orphan on this machine with this environment; gives what it printed, its pid first."""
    process = subprocess.Popen(words(env, source), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    numbers: list[int] = []
    try:
        numbers = said(process)
        yield numbers
    finally:
        for pid in numbers[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=10)


def only(mark: str) -> dict[str, str]:
    """Environment under which hangtop sees the processes with this mark alone."""
    return {"HANGTOP_ONLY": f"{MARK}={mark}"}


def state_of(pid: int) -> str:
    """Letter of the process's state; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def start_ticks(pid: int) -> int:
    """When it started, as /proc/PID/stat has it."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def wait_for_state(pid: int, wanted: str, seconds: float = 30.0) -> bool:
    """Whether it came into this state (or, for an empty one, was gone) in time."""
    deadline = time.monotonic() + seconds
    while state_of(pid) != wanted:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
