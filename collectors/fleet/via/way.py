"""Ways into a node beside hangtop's own SSH: local programs whose standard streams are those of a shell there."""

from __future__ import annotations

import atexit
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from collectors.fleet.targets.chosen import Target, TargetError

SSH = "ssh"
"""The system's own ``ssh``."""
SLURM = "slurm"
"""Steps of a Slurm job: :mod:`collectors.fleet.via.srun`."""
KUBECTL = "kubectl"
"""The containers of pods: :mod:`collectors.fleet.via.kubectl`."""

_ASKS = "it asks a question, and has no terminal here: run it by hand once, or log in first"
_TOKEN = re.compile(r"%(.?)")


@dataclass(frozen=True, slots=True)
class Way:
    """One program that leads to nodes."""

    words: Callable[[Target], list[str]]
    """The program and its arguments. Raises :class:`~collectors.fleet.transport.Refused`."""
    terminal: Callable[[Target], list[str]]
    """The same with a terminal."""
    advice: Sequence[tuple[str, str]]
    """Words of an error message in lower case, and what to do about it."""
    opening: float
    """Seconds until a shell must answer."""
    channels: int
    """Shells at once on one node."""
    at_once: int = 8
    """Shells that are opened at once on all nodes together."""

    def advise(self, said: str) -> str:
        """What to do about an error message of the program; empty where nothing is known."""
        return next((advice for words, advice in self.advice if words in said.lower()), "")


def way_of(text: str | None, ssh_config: Path | None = None) -> Way | None:
    """The way of ``--via ssh`` and ``--via CMD``; None without ``--via``. Raises :class:`TargetError`."""
    if text is None:
        return None
    return openssh(ssh_config) if text == SSH else any_command(text)


def openssh(ssh_config: Path | None = None) -> Way:
    """The user's own ``ssh``, for Kerberos, host-based logins, revocation lists, canonical names and tokens.

    One ``ssh`` a node carries the node side and is the master of its connection (``ControlMaster``); each further
    command goes through it.
    """
    config = [] if ssh_config is None else ["-F", str(ssh_config)]
    sockets = tempfile.mkdtemp(prefix="ht-")
    atexit.register(shutil.rmtree, sockets, ignore_errors=True)
    options = (
        "BatchMode=yes", "ControlMaster=auto", f"ControlPath={sockets}/%C", "ControlPersist=no",
        "ServerAliveInterval=2", "ServerAliveCountMax=3", "RemoteCommand=none", "LogLevel=ERROR",
    )  # fmt: skip

    def named(target: Target) -> list[str]:
        user = [] if target.user is None else ["-l", target.user]
        return [*user, *([] if target.port is None else ["-p", str(target.port)]), target.host]

    return Way(
        lambda target: ["ssh", "-T", *config, *(word for one in options for word in ("-o", one)), *named(target), "sh"],
        lambda target: ["ssh", *config, *named(target)],
        (
            ("host key verification failed", "ssh to it once by hand and look at its key"),
            ("permission denied", "ssh must get in without a question: ssh -o BatchMode=yes shows what it lacks"),
            ("too long for unix domain socket", "name a shorter folder by TMPDIR"),
            ("could not resolve hostname", "check the name, or HostName in the ssh_config"),
            ("connection refused", "is sshd running there?"),
        ),
        opening=30.0,
        channels=8,
    )


def any_command(text: str) -> Way:
    """A command line such as ``docker exec -i %h sh`` or ``tsh ssh root@%h sh``. Raises :class:`TargetError`.

    The text is split into words as a shell would split it, but nothing in it is expanded and no shell runs it. In each
    word ``%h`` is the node's host, ``%n`` the node as it was named, ``%r`` its user, ``%p`` its port, ``%%`` a percent
    sign.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"--via {text!r} cannot be split into words: {error}") from None
    tokens = {token for word in words for token in _TOKEN.findall(word)}
    if strange := sorted(tokens - set("hnrp%")):
        raise TargetError(f"--via {text!r}: %{strange[0]} means nothing: %h, %n, %r, %p and %% do")
    if not tokens & {"h", "n"}:
        raise TargetError(f"--via {text!r} has no %h, where the node's name belongs, and is no way by name")
    if "%" in words[0].replace("%%", ""):
        raise TargetError(f"--via {text!r}: its first word is the program, and cannot hold the node's name")

    def filled(target: Target) -> list[str]:
        values = {
            "h": target.host, "n": target.name, "%": "%",
            "r": target.user or "", "p": "" if target.port is None else str(target.port),
        }  # fmt: skip
        return [_TOKEN.sub(lambda found: values[found[1]], word) for word in words]

    return Way(
        filled,
        filled,
        (
            ("password", _ASKS),
            ("passphrase", _ASKS),
            ("(yes/no", _ASKS),
            ("executable file not found", "there is no such program at the far end: the container may have no sh"),
            ("sh: not found", "there is no sh at the far end"),
        ),
        opening=20.0,
        channels=4,
        at_once=16,
    )
