"""A Python 3.14, or what stands for one: Python's remote attach (PEP 768) as CPython 3.14's sources have it.

The stand-in is an interpreter of this machine behind a name that says 3.14. ``sys.remote_exec`` there signals the
process, whose handler runs the script in the main thread at its next bytecode, as ``_PyRunRemoteDebugger`` does; a
process that is inside a call of C does neither. ``_remote_debugging`` answers with what the process wrote down.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.pythons import interpreter

GIVEN = "HANGTOP_PYTHON314"
"""Names a Python 3.14 where none is on the PATH; ``HANGTOP_PYTHON314_LIBRARIES`` its LD_LIBRARY_PATH."""

BUSY = """
import sys, threading, time
%s
def waits_for_a_lock(lock):
    lock.acquire()
def counts_in_python():
    number = 0
    while True:
        number += 1
def sits_in_c():
    print("ready", flush=True)
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
held = threading.Lock()
held.acquire()
threading.Thread(target=waits_for_a_lock, args=(held,), daemon=True).start()
if sys.argv[1] == "busy":
    print("ready", flush=True)
    counts_in_python()
sits_in_c()
"""
STAND_IN_RANK = """
import os, signal
path = os.environ["PYTHON_STAND_IN"] + "/script.%d" % os.getpid()
signal.signal(signal.SIGUSR1, lambda *_: exec(open(path).read(), {}))
"""
STAND_IN_PYTHON = """#!{python}
import os, signal, subprocess, sys, types
sys.argv = sys.argv[sys.argv.index("-c") + 1:]
program = sys.argv[0]
def remote_exec(pid, script):
    if os.environ.get("PYTHON_STAND_IN_REFUSES"):
        raise PermissionError(1, "Operation not permitted")
    os.stat(script)
    path = "{folder}/script.%d" % pid
    with open(path + ".new", "w") as file:
        file.write(open(script).read())
    os.rename(path + ".new", path)
    os.kill(pid, signal.SIGUSR1)
sys.remote_exec = remote_exec
class Frame:
    def __init__(self, name, line):
        self.funcname, self.filename, self.lineno = name, "/job/train.py", line
class Thread:
    def __init__(self, number, *frames):
        self.thread_id, self.frame_info = number, list(frames)
class RemoteUnwinder:
    def __init__(self, pid, *, all_threads=False):
        if os.environ.get("PYTHON_STAND_IN_REFUSES"):
            raise PermissionError(1, "Operation not permitted")
        self.pid = pid
    def get_stack_trace(self):
        return [Thread(self.pid + 1, Frame("waits_for_a_lock", 4)), Thread(self.pid, Frame("counts_in_python", 8))]
sys.modules["_remote_debugging"] = types.ModuleType("_remote_debugging")
sys.modules["_remote_debugging"].RemoteUnwinder = RemoteUnwinder
exec(program, {{}})
"""


@dataclass
class NewPython:
    """An interpreter, and the environment that its ranks need."""

    path: str
    prelude: str = ""
    env: dict[str, str] = field(default_factory=dict)
    binary: str = ""
    """What a rank runs, where that is another file."""

    @contextmanager
    def rank(self, how: str, folder: Path, more: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
        """A process that is ``busy`` in Python, or in ``c``."""
        program = folder / "train.py"
        program.write_text(textwrap.dedent(BUSY.replace("%s", self.prelude)))
        runs = [self.binary or self.path, str(program), how]
        # the first word of a command line is the interpreter that hangtop runs, as behind a venv's link
        words = [self.path, *runs[1:]]
        env = {**os.environ, **self.env, **(more or {})}
        with subprocess.Popen(words, executable=runs[0], stdout=subprocess.PIPE, text=True, env=env) as made:
            assert made.stdout is not None
            assert made.stdout.readline() == "ready\n"
            try:
                yield made
            finally:
                made.kill()


def real() -> NewPython | None:
    """A Python 3.14 of this machine; None where there is none."""
    given = os.environ.get(GIVEN)
    found = Path(given) if given else interpreter("3.14")
    libraries = os.environ.get(GIVEN + "_LIBRARIES")
    return None if found is None else NewPython(str(found), env={"LD_LIBRARY_PATH": libraries} if libraries else {})


def stand_in(folder: Path) -> NewPython:
    """What stands for one, in this folder."""
    binary = folder / "bin" / "python3.14"  # what a process has mapped tells its release
    binary.parent.mkdir()
    shutil.copy(Path(sys.executable).resolve(), binary)
    path = folder / "python3.14"
    path.write_text(STAND_IN_PYTHON.format(python=sys.executable, folder=folder))
    path.chmod(0o755)
    return NewPython(
        str(path), STAND_IN_RANK, {"PYTHON_STAND_IN": str(folder), "PYTHONHOME": sys.base_prefix}, str(binary)
    )
