"""Every command by name. Its module is imported when the command is asked for, so that a start imports little."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """Where a command is, and what it does in one line (shown without importing it)."""

    where: str
    """``module:attribute`` of a :class:`click.Command`."""
    help: str


COMMANDS: dict[str, CommandEntry] = {
    "watch": CommandEntry("hangtop.cli.screen:command", "Watch a running job, live. The default: `hangtop gpu[1-8]`."),
    "demo": CommandEntry("hangtop.cli.demo:command", "Start a small real job on simulated nodes and watch it live."),
    "triage": CommandEntry(
        "hangtop.cli.triage:command", "Look for a few seconds, say what is wrong, exit with a code."
    ),
    "stacks": CommandEntry("hangtop.cli.stacks:command", "Show where all ranks are, those at the same point together."),
    "analyze": CommandEntry(
        "hangtop.cli.analyze:command", "Judge a job that is over, from its logs, dumps and tool outputs."
    ),
    "flame": CommandEntry("hangtop.cli.flame:command", "Sample ranks for some seconds and save flame graphs."),
    "preflight": CommandEntry(
        "hangtop.cli.preflight:command", "Check nodes before a job: what would stop it, and the remedy."
    ),
    "probe": CommandEntry(
        "hangtop.cli.probe:command", "Measure collectives between nodes; name what is slow, blocked or wrong."
    ),
    "witness": CommandEntry(
        "hangtop.cli.witness:command",
        "List the job's own witnesses; after asking: NCCL's counts and diagnostics.",
    ),
    "repair": CommandEntry(
        "hangtop.cli.repair:command",
        "Mend, after asking: orphans, stopped ranks, a taken port, a launch that leaves no traces.",
    ),
    "record": CommandEntry("hangtop.cli.record:command", "Watch without a screen and write what is seen to a file."),
    "replay": CommandEntry("hangtop.cli.replay:command", "Show a recording as if it were live, or judge it."),
}
"""To add a command, write its file and add its line."""

DEFAULT = "watch"
