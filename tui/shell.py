"""The command that opens a shell on a node."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from hangtop.session.live import shell_words, ssh_words
from hangtop.session.options import SessionOptions


def shell_command(node: str, options: SessionOptions) -> list[str]:
    """Argv of an interactive shell on a node, the way the session reaches it; this machine's own shell for itself."""
    if not options.targets and options.hostfile is None and options.slurm is None:
        return [os.environ.get("SHELL", "/bin/sh")]
    if (words := shell_words(node, options)) is not None:
        return words
    command = ssh_words(options)
    user, _, rest = node.rpartition("@")
    host, colon, port = rest.rpartition(":")
    if colon and port.isdecimal() and ":" not in host:
        command += ["-p", port]
    else:
        host = rest
    return [*command, "--", f"{user}@{host}" if user else host]


def shown(command: Sequence[str]) -> str:
    """The command as a shell would take it."""
    return shlex.join(command)
