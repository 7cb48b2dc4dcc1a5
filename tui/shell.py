"""The command that opens a shell on a node, and hangtop's own words for what a dump runs there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from hangtop.session.options import SessionOptions
from hangtop.session.reaching import shell_words, ssh_words
from tui.scene import Scene


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


def native_commands(scene: Scene, ranks: set[int]) -> str:
    """What a native dump of these ranks runs, node by node."""
    from collectors.node.stacks.pyspy import dump_command

    lines = []
    for row in scene.ranks:
        if row.number in ranks and row.rank.gone_at is None:
            command = dump_command("py-spy", row.rank.process.pid, "native", True)
            lines.append(f"{row.node.name}: {shown(command)}")
    return "\n".join(lines) or "nothing: no living rank is chosen"
