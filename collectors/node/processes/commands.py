"""Classifies a process by its command line: interpreter, launcher, wrapper, or one of hangtop's own programs.

Hangtop's programs are never ranks, even when they inherit RANK in a container: ``docker exec``, ``kubectl exec`` and an
sshd in a pod pass the container's environment to every program that they start. Over SSH hangtop's programs are
recognized by their command line; over other connections the shell sets :data:`MARK`.
"""

from __future__ import annotations

import os.path
import re
from typing import Sequence

LAUNCHERS = frozenset(
    (
        "torchrun", "torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic.multiprocessing",
        "accelerate", "accelerate-launch", "accelerate.commands.launch", "accelerate.commands.accelerate_cli",
        "deepspeed", "deepspeed.launcher.launch", "deepspeed.launcher.runner", "composer", "srun", "slurmstepd",
        "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "orted", "prted", "hydra_pmi_proxy", "pdsh", "ray",
        "raylet",
    )
)  # fmt: skip
"""Programs (and Python modules) that start ranks without being ranks, and their daemons."""

WRAPPERS = frozenset(
    (
        "sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish", "ash", "busybox", "env", "timeout", "nice", "ionice",
        "numactl", "taskset", "stdbuf", "setsid", "nohup", "time", "tee", "cat", "tail", "sleep", "xargs", "nsys",
        "ncu", "perf", "strace", "gdb", "gdbserver", "py-spy", "sudo", "su", "runuser", "chroot", "unshare", "nsenter",
        "systemd-run", "tini", "dumb-init", "singularity", "apptainer", "starter", "starter-suid", "enroot", "docker",
        "podman", "conda", "mamba", "uv", "poetry", "ssh", "sshd", "nvidia-smi", "git", "pip",
    )
)  # fmt: skip
"""Programs that wrap a rank, or run next to a rank in a script."""

_VALUE_OPTIONS = frozenset(("-W", "-X", "--check-hash-based-pycs"))

_HELD = re.compile(r"/proc/\d+/fd/\d+")
"""Path by which a lent py-spy is started: a descriptor of a file in memory, which no other user can replace."""

MARK = "HANGTOP_OWN"
"""Set to any value in the environment of all programs that a shell of ours starts."""


def is_python(executable: str, words: Sequence[str]) -> bool:
    """True for a Python interpreter, by its executable or (if that is unreadable) the first word of its command."""
    name = os.path.basename(executable or (words[0] if words else ""))
    return name.startswith(("python", "pypy"))


def program(words: Sequence[str]) -> str:
    """Name of the program that a command runs: an interpreter's script or module, else the program itself."""
    if not words:
        return ""
    name = os.path.basename(words[0])
    if not name.startswith(("python", "pypy")):
        return name
    position = 1
    while position < len(words):
        word = words[position]
        if word == "-m":
            return words[position + 1] if position + 1 < len(words) else ""
        if word.startswith("-m"):
            return word[2:]
        if word == "-c":
            return "-c"
        if not word.startswith("-"):
            return os.path.basename(word)
        position += 2 if word in _VALUE_OPTIONS else 1
    return name


def is_own(words: Sequence[str]) -> bool:
    """True for the command that starts one of our programs (``payload.command``): ``python3 … -c PROGRAM hangtop``.

    Also true for a lent py-spy, which maps the libraries of the inspected rank to read native frames.
    """
    if words and _HELD.fullmatch(words[0]):
        return tuple(words[1:2]) in {("dump",), ("record",)}
    return "hangtop" in words[2:9] and "-c" in words[1:8]
