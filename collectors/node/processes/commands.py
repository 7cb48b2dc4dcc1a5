"""What the command of a process says that it is: an interpreter, a launcher, a wrapper, or a program of this tool.

Programs of this tool are never ranks, though in a container they inherit the number of one: a way into a container
(``docker exec``, ``kubectl exec``, an sshd in a pod) gives the environment of the container to whatever it starts
there. By SSH a command is known by its words; by other ways the shell marks all that it starts.
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
"""Programs (and Python modules) that start ranks and are none, what they run as, and their daemons."""

WRAPPERS = frozenset(
    (
        "sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish", "ash", "busybox", "env", "timeout", "nice", "ionice",
        "numactl", "taskset", "stdbuf", "setsid", "nohup", "time", "tee", "cat", "tail", "sleep", "xargs", "nsys",
        "ncu", "perf", "strace", "gdb", "gdbserver", "py-spy", "sudo", "su", "runuser", "chroot", "unshare", "nsenter",
        "systemd-run", "tini", "dumb-init", "singularity", "apptainer", "starter", "starter-suid", "enroot", "docker",
        "podman", "conda", "mamba", "uv", "poetry", "ssh", "sshd", "nvidia-smi", "git", "pip",
    )
)  # fmt: skip
"""Programs that wrap a rank, or stand beside one in a script."""

_VALUE_OPTIONS = frozenset(("-W", "-X", "--check-hash-based-pycs"))

_HELD = re.compile(r"/proc/\d+/fd/\d+")
"""How a py-spy is started that is held open: lent, in memory, or a file that nobody can put another in the place of."""

MARK = "HANGTOP_OWN"
"""Set to anything in the environment of what a shell of ours starts."""


def is_python(executable: str, words: Sequence[str]) -> bool:
    """True for a Python interpreter, by its file or (where that may not be read) by the first word of its command."""
    name = os.path.basename(executable or (words[0] if words else ""))
    return name.startswith(("python", "pypy"))


def program(words: Sequence[str]) -> str:
    """Name of what a command runs: the script or module behind an interpreter, else the program itself."""
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

    Also for the py-spy that one of them has started: for native frames it maps the libraries of the rank it looks at.
    """
    if words and _HELD.fullmatch(words[0]):
        return tuple(words[1:2]) in {("dump",), ("record",)}
    return "hangtop" in words[2:9] and "-c" in words[1:8]
