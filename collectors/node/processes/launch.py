"""Starts a program with a rank's interpreter and environment, feeds it from memory, and takes it along when it ends.

As root it is started as the rank's owner (see ``owner``): all that it loads is that user's to choose. The environment
is read here and goes no further than the child: it holds secrets. Standard input carries control lines; each re-arms
this process's alarm (see ``watchdog``), all but heartbeats, which are empty, are passed on to the child. The child
writes to our standard output and standard error itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Callable, Dict, NamedTuple, Optional

from collectors.node import loader, watchdog
from collectors.node.files import is_ours, link, read_or_none
from collectors.node.processes import environ, owner, procfs

# Of the job's environment, what decides how its libraries are found and what they do; rank and rendezvous are the
# probe's own.
KEPT_PREFIXES = (
    "NCCL_", "TORCH_", "GLOO_", "CUDA_", "UCX_", "FI_", "OMP_", "MKL_", "PYTHON", "CONDA_", "LD_", "NVIDIA_",
)  # fmt: skip
KEPT = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "VIRTUAL_ENV")
DROPPED = ("NCCL_DEBUG_FILE", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "NCCL_COMM_ID", "PYTHONSTARTUP", "PYTHONINSPECT")


def environment_of(pid: Optional[int]) -> Dict[str, str]:
    """What a rank's environment gives to a probe; this login's own where there is no rank, or it may not be read."""
    data = read_or_none("/proc/%d/environ" % pid) if pid is not None else None
    found = environ.parse(data) if data else dict(os.environ)
    kept = {name: value for name, value in found.items() if name in KEPT or name.startswith(KEPT_PREFIXES)}
    return {name: value for name, value in kept.items() if name not in DROPPED}


def interpreter_of(pid: Optional[int], wanted: str) -> str:
    """The interpreter to use: the one that was asked for, else the rank's, else ``python3`` of the node.

    A rank is started by its virtual environment's link (``venv/bin/python``), which /proc/PID/exe no longer shows: the
    first word of its command line does, where it is a path.
    """
    if wanted or pid is None:
        return wanted or shutil.which("python3") or "python3"
    first = (procfs.split_zeros(read_or_none("/proc/%d/cmdline" % pid) or b"") or [""])[0]
    if "/" in first:
        first = os.path.join(link("/proc/%d/cwd" % pid), first)
    home = environment_of(pid).get("VIRTUAL_ENV", "")
    for candidate in (first, home and os.path.join(home, "bin", "python"), link("/proc/%d/exe" % pid)):
        if os.path.isabs(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return interpreter_of(None, "")


class Borrowed(NamedTuple):
    """What a rank lends to a program."""

    environment: Dict[str, str]
    python: str
    become: Callable[[], None]
    """Makes the child the rank's owner, before its exec."""


def borrow(pid: Optional[int], wanted: str) -> Borrowed:
    """What this rank lends; this login's own things where there is no rank, or nothing of it may be used.

    All of it is read of one process: a pid that is given anew meanwhile counts as none. Of root's own ranks only an
    interpreter that nobody else can change is run.
    """
    if pid is not None:
        before = owner.owner_of(pid)
        if before is not None and owner.may_be_imitated(pid, before):
            lent = Borrowed(environment_of(pid), interpreter_of(pid, wanted), owner.becoming(before))
            ours = is_ours(lent.python) and is_ours(os.path.realpath(lent.python))
            if owner.owner_of(pid) == before and (before.uid != 0 or ours):
                return lent
        sys.stderr.write(
            "hangtop: nothing of process %d may be used (gone, another user's, in a container, or writable by others):"
            " this runs with the node's own Python and settings\n" % pid
        )
    return Borrowed(environment_of(None), interpreter_of(None, wanted), owner.becoming(None))


def main(arguments: Dict[str, object]) -> None:
    """Entry. ``pid``: a rank to imitate, ``python``: interpreter instead, ``env``: settings on top, ``command``: argv.

    ``command`` has ``{python}`` where the interpreter goes; the blob ``child`` is written to the child's standard input
    before anything else.
    """
    watchdog.prepare()  # heartbeats are heard once the child is there
    pid, extra, words = arguments.get("pid"), arguments.get("env"), arguments.get("command")
    lent = borrow(pid if isinstance(pid, int) else None, str(arguments.get("python") or ""))
    environment = {**lent.environment, **(extra if isinstance(extra, dict) else {})}
    argv = [str(word).replace("{python}", lent.python) for word in (words if isinstance(words, list) else [])]
    setup = watchdog.child_setup()
    if setup is None:
        sys.exit("hangtop: this node's Python has no ctypes, so a probe could not be ended reliably")

    def prepare() -> None:
        lent.become()
        setup()

    try:
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, env=environment, cwd="/", preexec_fn=prepare)  # noqa: PLW1509
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit("hangtop: %s: %s" % (argv[0], error))
    assert child.stdin is not None
    target, rest = child.stdin, b""

    def forward(data: bytes) -> None:
        """Pass control lines on."""
        nonlocal rest
        *lines, rest = (rest + data).split(b"\n")
        try:
            target.write(b"".join(line + b"\n" for line in lines if line))
            target.flush()
        except OSError:  # the child has ended: its status says why
            return

    target.write(loader.blob("child") or b"")
    target.flush()
    watchdog.watch(forward)
    watchdog.leave(child.wait() & 0xFF)
