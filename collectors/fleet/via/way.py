"""Ways into a node other than hangtop's own SSH: local commands whose standard streams lead to a shell on the node.

A way is a template. In each word ``%h`` is the node's host, ``%n`` the node as the user named it, ``%r`` its user,
``%p`` its port, ``%u`` host, user and port as an ``ssh://`` URI, ``%j`` the Slurm job that holds it, ``%%`` a percent
sign. No shell runs the command, so nothing else is expanded.
"""

from __future__ import annotations

import atexit
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from collectors.fleet.targets.chosen import Target, TargetError, parse
from collectors.fleet.targets.slurm import SlurmPart, slurm_words
from collectors.fleet.transport import Refused

AT_ONCE = 8
"""Shells that may be opening at once, over all nodes."""

_TOKEN = re.compile(r"%(.?)")

# Options of srun: --overlap lets the step share what other steps hold, --mem=0 asks for no memory of its own,
# --mpi=none starts no PMI. Never --unbuffered: it makes a terminal. _PLACE would make hangtop's programs ranks.
_STEP = ("srun", "--jobid=%j", "--nodelist=%h", "--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--mpi=none")
_PLACE = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NPROCS")
_SHELL = ("env", *(word for name in _PLACE for word in ("-u", name)), "sh")
# The first ssh to a node is the master of its connection; each further command goes through it.
_MASTER = (
    "BatchMode=yes", "ControlMaster=auto", "ControlPersist=no", "ServerAliveInterval=2", "ServerAliveCountMax=3",
    "RemoteCommand=none", "LogLevel=ERROR",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Way:
    """One program that connects to nodes."""

    template: Sequence[str]
    channels: int = 4
    """Simultaneous shells on one node."""
    opening: float = 30.0
    """Seconds within which a shell must answer."""
    jobs: Mapping[str, str] = field(default_factory=dict)
    """The Slurm job of each host."""

    def words(self, target: Target) -> list[str]:
        """The program and its arguments. Raises :class:`~collectors.fleet.transport.Refused`."""
        if self.jobs and target.host not in self.jobs:
            raise Refused(f"{target.name}: the Slurm job has no such node")
        host, user, port = target.host, target.user or "", str(target.port or "")
        address = f"[{host}]" if ":" in host else host
        values = {
            "h": host, "n": target.name, "r": user, "p": port, "j": self.jobs.get(host, ""), "%": "%",
            "u": f"ssh://{user and user + '@'}{address}{port and ':' + port}",
        }  # fmt: skip
        return [_TOKEN.sub(lambda found: values[found[1]], word) for word in self.template]


HERE = Way(("sh",), channels=32)
"""The way to this machine itself."""


def way_of(text: str | None, ssh_config: Path | None = None, parts: Sequence[SlurmPart] = ()) -> Way | None:
    """The way that ``--via`` names, or a command line; None for None. Raises :class:`TargetError`."""
    match text:
        case None:
            return None
        case "ssh":
            sockets = tempfile.mkdtemp(prefix="ht-")
            atexit.register(shutil.rmtree, sockets, ignore_errors=True)
            config = ("-F", str(ssh_config).replace("%", "%%")) if ssh_config is not None else ()
            options = [word for option in (*_MASTER, f"ControlPath={sockets}/%%C") for word in ("-o", option)]
            return Way(("ssh", "-T", *config, *options, "%u", "sh"))
        case "slurm":
            jobs = {target.host: part.number for part in reversed(parts) for target in parse([part.nodes])}
            return Way(slurm_words((*_STEP, *_SHELL)), opening=60.0, jobs=jobs)
        case "kubectl":
            return Way(("kubectl", "exec", "-i", "%h", "--", "sh"))
    return any_command(text)


def any_command(text: str) -> Way:
    """A command line such as ``docker exec -i %h sh``, split into words as a shell would split it.

    Raises :class:`TargetError`.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"--via {text!r} cannot be split into words: {error}") from None
    tokens = {token for word in words for token in _TOKEN.findall(word)}
    if strange := sorted(tokens - set("hnrpu%")):
        raise TargetError(f"--via {text!r}: %{strange[0]} means nothing: %h, %n, %r, %p, %u and %% do")
    if not tokens & set("hnu"):
        raise TargetError(f"--via {text!r} has no %h, where the node's name belongs, and is no way by name")
    if "%" in words[0].replace("%%", ""):
        raise TargetError(f"--via {text!r}: its first word is the program, and cannot hold the node's name")
    return Way(words)
