"""Starts a program with a rank's interpreter and environment, feeds it from memory, and kills it when this one ends.

A user controls the interpreter, PATH, ``LD_*`` and ``PYTHON*`` of the user's ranks, and so any process that uses them:
as root, the program is started as the rank's owner. The environment holds secrets and is passed only to the child.
Standard input carries control lines. Each line re-arms this process's alarm (see ``watchdog``); all but heartbeats,
which are empty, are forwarded to the child. The child writes directly to our standard output and standard error.
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

# Variables of the job that decide how its libraries are found and behave; rank and rendezvous are the probe's own.
KEPT = (
    "NCCL_", "TORCH_", "GLOO_", "CUDA_", "UCX_", "FI_", "OMP_", "MKL_", "PYTHON", "CONDA_", "LD_", "NVIDIA_", "PATH",
    "HOME", "USER", "LANG", "TMPDIR", "VIRTUAL_ENV",
)  # fmt: skip
"""Prefixes of names."""
DROPPED = ("NCCL_DEBUG_FILE", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "NCCL_COMM_ID", "PYTHONSTARTUP", "PYTHONINSPECT")
_NO_NEW_PRIVS = 38
"""PR_SET_NO_NEW_PRIVS of prctl(2): exec grants no further privileges (setuid bits have no effect)."""
_AT_SECURE = 23
"""Entry of the auxiliary vector (getauxval(3)): the program was started with more privileges than its caller."""


class ProcessOwner(NamedTuple):
    """The user and groups that a process runs as."""

    uid: int
    gid: int
    groups: Tuple[int, ...]
    started: int
    """Clock ticks since boot; differs for a reused pid."""


def owner_of(pid: int, proc: str = "/proc") -> Optional[ProcessOwner]:
    """Owner of a process; None when it is gone, or does not belong to a single user.

    A process belongs to no single user if its user ids differ, or if its program had (or may have had) more privileges
    than its caller (setuid): its environment and its name may come from another user.
    """
    folder = "%s/%d" % (proc, pid)
    status, stat, aux = read_or_none(folder + "/status") or b"", read_stat(proc, pid), read_or_none(folder + "/auxv")
    uids, gids, groups = (colon_field(status, name).split() for name in (b"Uid", b"Gid", b"Groups"))
    entries: Dict[int, int] = dict(struct.iter_unpack("@LL", (aux or b"")[: len(aux or b"") // 16 * 16]))
    if stat is None or len(set(uids)) != 1 or len(set(gids)) != 1 or entries.get(_AT_SECURE, 1):
        return None
    return ProcessOwner(int(uids[0]), int(gids[0]), tuple(map(int, groups)), stat.start_ticks)


def may_be_imitated(pid: int, owner: ProcessOwner, proc: str = "/proc") -> bool:
    """True if a program run as the process's owner may use the process's interpreter and environment.

    As root: only for a process in our own namespaces. Root in a container has fewer rights than we have, a device node
    that it made could be opened by a process outside, and paths in a container differ. Other users: only their own.
    """
    if os.geteuid() != 0:
        return owner.uid == os.geteuid()
    return all(
        link("%s/%d/%s" % (proc, pid, place)) == link("%s/self/%s" % (proc, place)) != ""
        for place in ("ns/mnt", "ns/user", "ns/pid", "root")  # "root": chroot changes nothing else
    )


def becoming(owner: ProcessOwner) -> Callable[[], None]:
    """Function that a child calls between fork and exec to run as ``owner``; does nothing unless it must leave root.

    Call it before requesting a parent-death signal, which a change of user clears. Setuid bits are disabled: the user
    may have been root in a container that shares a folder with the node.
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
    """The part of an environment that a probe receives."""
    return {name: value for name, value in found.items() if name.startswith(KEPT) and name not in DROPPED}


def interpreter_of(pid: int, environment: Mapping[str, str]) -> str:
    """Path of a rank's interpreter; empty if none can be executed.

    A rank is started through its virtual environment's link (``venv/bin/python``). /proc/PID/exe shows the link's
    target; the first word of the command line, if it is a path, shows the link.
    """
    first = (split_zeros(read_or_none("/proc/%d/cmdline" % pid) or b"") or [""])[0]
    if "/" in first:
        first = os.path.join(link("/proc/%d/cwd" % pid), first)
    home = environment.get("VIRTUAL_ENV", "")
    places = (first, home and os.path.join(home, "bin", "python"), link("/proc/%d/exe" % pid))
    return next((place for place in places if os.path.isabs(place) and os.access(place, os.X_OK)), "")


class Borrowed(NamedTuple):
    """Interpreter, environment and owner of a rank, for a program to use."""

    environment: Dict[str, str]
    python: str
    become: Optional[Callable[[], None]]
    """Switches the child to the rank's owner, before its exec; None if nothing was borrowed."""


def borrow(pid: Optional[int], wanted: str) -> Borrowed:
    """Borrow from this rank; without a rank, or if nothing of it may be used, return this login's own settings.

    Everything must come from one process: a pid that is reused meanwhile counts as no rank. For root's own ranks, only
    an interpreter that no other user can change is run. ``wanted`` is run instead of the rank's interpreter.
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
    """Entry. ``pid``: rank to borrow from, ``python``: interpreter to use, ``env``: more variables, ``command``: argv.

    ``{python}`` in ``command`` is replaced by the interpreter; the blob ``child`` is written to the child's standard
    input before anything else.
    """
    watchdog.arm()  # heartbeats are read once the child runs
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
    target = child.stdin

    def forward(line: bytes) -> None:
        """Forward a control line to the child."""
        try:
            target.write(line + b"\n")
            target.flush()
        except OSError:  # the child has ended: its exit status shows why
            return

    target.write(loader.blob("child") or b"")
    target.flush()
    watchdog.watch(forward)
    watchdog.leave(child.wait() & 0xFF)
