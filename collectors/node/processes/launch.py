"""Starts a program with a rank's interpreter and environment, feeds it from memory, and takes it along when it ends.

The interpreter, PATH, ``LD_*`` and ``PYTHON*`` of a rank are its user's, and a process of root's into which they come
is that user's: as root the program is started as the rank's owner. The environment is read here and goes no further
than the child: it holds secrets. Standard input carries control lines; each re-arms this process's alarm (see
``watchdog``), all but heartbeats, which are empty, are passed on to the child. The child writes to our standard output
and standard error itself.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple

from collectors.node import loader, watchdog
from collectors.node.files import is_ours, link, read_or_none
from collectors.node.processes import environ
from collectors.node.processes.procfs import colon_field, read_stat, split_zeros

# Of the job's environment, what decides how its libraries are found and what they do; rank and rendezvous are the
# probe's own.
KEPT = (
    "NCCL_", "TORCH_", "GLOO_", "CUDA_", "UCX_", "FI_", "OMP_", "MKL_", "PYTHON", "CONDA_", "LD_", "NVIDIA_", "PATH",
    "HOME", "USER", "LANG", "TMPDIR", "VIRTUAL_ENV",
)  # fmt: skip
"""Beginnings of names."""
DROPPED = ("NCCL_DEBUG_FILE", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "NCCL_COMM_ID", "PYTHONSTARTUP", "PYTHONINSPECT")
_NO_NEW_PRIVS = 38
"""Option of prctl(2): no program that is run from now on has more rights than the process that runs it."""
_AT_SECURE = 23
"""Entry of the auxiliary vector (getauxval(3)): the program was started with more rights than its caller has."""


class ProcessOwner(NamedTuple):
    """As whom a process runs."""

    uid: int
    gid: int
    groups: Tuple[int, ...]
    started: int
    """Clock ticks since boot: a pid that was given anew has another one."""


def owner_of(pid: int, proc: str = "/proc") -> Optional[ProcessOwner]:
    """Owner of a process; None when it is gone, or is not simply one user's.

    Of no single user is a process whose user ids differ, or whose program had more rights than its caller (a setuid
    program), or may have had: its environment and its name may have come from another user.
    """
    folder = "%s/%d" % (proc, pid)
    status, stat, aux = read_or_none(folder + "/status") or b"", read_stat(proc, pid), read_or_none(folder + "/auxv")
    uids, gids, groups = (colon_field(status, name).split() for name in (b"Uid", b"Gid", b"Groups"))
    entries: Dict[int, int] = dict(struct.iter_unpack("@LL", (aux or b"")[: len(aux or b"") // 16 * 16]))
    if stat is None or len(set(uids)) != 1 or len(set(gids)) != 1 or entries.get(_AT_SECURE, 1):
        return None
    return ProcessOwner(int(uids[0]), int(gids[0]), tuple(map(int, groups)), stat.start_ticks)


def may_be_imitated(pid: int, owner: ProcessOwner, proc: str = "/proc") -> bool:
    """True where a program may run with what this process has, once it runs as its owner.

    As root: only what is on the host as we are. Root in a container has fewer rights than we, a device that it made may
    be opened by a process outside, and paths in a container lead elsewhere. As anybody else: one's own alone.
    """
    if os.geteuid() != 0:
        return owner.uid == os.geteuid()
    return all(
        link("%s/%d/%s" % (proc, pid, place)) == link("%s/self/%s" % (proc, place)) != ""
        for place in ("ns/mnt", "ns/user", "ns/pid", "root")  # "root": another one with chroot alone
    )


def becoming(owner: ProcessOwner) -> Callable[[], None]:
    """What a child calls between fork and exec to run as that user: nothing where this is not root, or it is root's.

    Before it asks for a parent-death signal: a change of user takes that away. Setuid programs do not help that user:
    in a folder that a container shares with the node the user may have been root.
    """
    if os.geteuid() != 0 or owner.uid == 0:
        return lambda: None
    import ctypes  # not every Python has it

    uid, gid, groups = owner.uid, owner.gid, list(owner.groups)
    prctl = ctypes.CDLL(None).prctl

    def become() -> None:
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        if prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(0, "the kernel does not let it do without more rights")

    return become


def environment_of(found: Mapping[str, str]) -> Dict[str, str]:
    """What an environment gives to a probe."""
    return {name: value for name, value in found.items() if name.startswith(KEPT) and name not in DROPPED}


def interpreter_of(pid: int, environment: Mapping[str, str]) -> str:
    """The interpreter of a rank; empty where none of it can be run.

    A rank is started by its virtual environment's link (``venv/bin/python``), which /proc/PID/exe no longer shows: the
    first word of its command line does, where it is a path.
    """
    first = (split_zeros(read_or_none("/proc/%d/cmdline" % pid) or b"") or [""])[0]
    if "/" in first:
        first = os.path.join(link("/proc/%d/cwd" % pid), first)
    home = environment.get("VIRTUAL_ENV", "")
    places = (first, home and os.path.join(home, "bin", "python"), link("/proc/%d/exe" % pid))
    return next((place for place in places if os.path.isabs(place) and os.access(place, os.X_OK)), "")


class Borrowed(NamedTuple):
    """What a rank lends to a program."""

    environment: Dict[str, str]
    python: str
    become: Optional[Callable[[], None]]
    """Makes the child the rank's owner, before its exec; None where nothing was lent."""


def borrow(pid: Optional[int], wanted: str) -> Borrowed:
    """What this rank lends; this login's own things where there is no rank, or nothing of it may be used.

    All of it is read of one process: a pid that is given anew meanwhile counts as none. Of root's own ranks only an
    interpreter that nobody else can change is run. ``wanted`` is run in place of the rank's interpreter.
    """
    usual = wanted or shutil.which("python3") or "python3"
    if pid is not None:
        before = owner_of(pid)
        if before is not None and may_be_imitated(pid, before):
            environment = environment_of(environ.parse(read_or_none("/proc/%d/environ" % pid) or b""))
            lent = Borrowed(environment, wanted or interpreter_of(pid, environment) or usual, becoming(before))
            ours = is_ours(lent.python) and is_ours(os.path.realpath(lent.python))
            if owner_of(pid) == before and (before.uid != 0 or ours):
                return lent
        sys.stderr.write(
            "hangtop: nothing of process %d may be used (gone, another user's, in a container, or writable by others):"
            " this runs with the node's own Python and settings\n" % pid
        )
    return Borrowed(environment_of(os.environ), usual, None)


def main(arguments: Dict[str, Any]) -> None:
    """Entry. ``pid``: a rank to imitate, ``python``: interpreter instead, ``env``: settings on top, ``command``: argv.

    ``command`` has ``{python}`` where the interpreter goes; the blob ``child`` is written to the child's standard input
    before anything else.
    """
    watchdog.arm()  # heartbeats are heard once the child is there
    lent = borrow(arguments["pid"], arguments["python"])
    environment = {**lent.environment, **arguments["env"]}
    argv = [word.replace("{python}", lent.python) for word in arguments["command"]]
    setup = watchdog.child_setup(become=lent.become)
    if setup is None:
        sys.exit("hangtop: this node's Python has no ctypes, so a probe could not be ended reliably")
    try:
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, env=environment, cwd="/", preexec_fn=setup)  # noqa: PLW1509
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
