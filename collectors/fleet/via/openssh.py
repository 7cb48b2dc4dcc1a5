"""Nodes by the system's own ``ssh``, for Kerberos, host-based logins, revocation lists, canonical names and tokens.

One ``ssh`` a node carries the node side and is the master of its connection (``ControlMaster``); each further command
goes through it.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from collectors.fleet.targets.chosen import Target

_ADVICE = (
    ("host key verification failed", "ssh to it once by hand and look at its key"),
    ("permission denied", "ssh must get in without a question: ssh -o BatchMode=yes shows what it lacks"),
    ("too long for unix domain socket", "name a shorter folder by TMPDIR"),
    ("could not resolve hostname", "check the name, or HostName in the ssh_config"),
    ("connection refused", "is sshd running there?"),
)


class OpenSsh:
    """The user's ``ssh``, and its configuration."""

    opening = 30.0
    channels = 8
    at_once = 8

    def __init__(self, ssh_config: Path | None = None) -> None:
        self._config = [] if ssh_config is None else ["-F", str(ssh_config)]
        self._sockets: Path | None = None

    async def prepare(self, target: Target) -> None:  # noqa: ARG002 (the same folder for all)
        """Create the folder of the masters' sockets, which is removed at exit."""
        if self._sockets is None:
            self._sockets = Path(tempfile.mkdtemp(prefix="ht-"))
            atexit.register(shutil.rmtree, self._sockets, ignore_errors=True)

    def words(self, target: Target) -> list[str]:
        """A shell on the node, over the master connection or a new one."""
        options = ["BatchMode=yes", "ControlMaster=auto", f"ControlPath={self._sockets}/%C", "ControlPersist=no"]
        options += ["ServerAliveInterval=2", "ServerAliveCountMax=3", "RemoteCommand=none", "LogLevel=ERROR"]
        return ["ssh", "-T", *self._config, *(word for one in options for word in ("-o", one)), *_named(target), "sh"]

    def terminal(self, target: Target) -> list[str]:
        """A shell for a person, over a connection of its own."""
        return ["ssh", *self._config, *_named(target)]

    def advice(self, said: str) -> str:
        """Advice for an error message of ssh."""
        return next((advice for words, advice in _ADVICE if words in said.lower()), "")


def _named(target: Target) -> list[str]:
    user = [] if target.user is None else ["-l", target.user]
    return [*user, *([] if target.port is None else ["-p", str(target.port)]), target.host]
