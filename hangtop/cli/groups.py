"""Every command by name, and groups with a default command.

A command's module is imported only when the command runs, so that a start imports little.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import click


class CommandEntry(NamedTuple):
    """Where a command is defined, and one line of help (shown without importing the command)."""

    where: str
    """``module:attribute`` of a :class:`click.Command`."""
    help: str


DEFAULT = "watch"
ALONE = {"--help", "-h", "--version"}
"""Options of the group itself."""
ALIKE = 0.8
"""Ours: how near (``difflib``'s ratio) a word is to the command of which it is taken for a misspelling."""


class DefaultGroup(click.Group):
    """A group with a default command: ``hangtop probe node1`` runs ``hangtop probe collectives node1``."""

    def __init__(self, name: str, entries: Mapping[str, CommandEntry], default: str, **attrs: Any) -> None:
        words = f"[{default}] [ARGS]... | COMMAND [ARGS]..."
        super().__init__(name, no_args_is_help=False, subcommand_metavar=words, **attrs)
        self._entries = entries
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command's name if the words do not start with a command."""
        completing = ctx.resilient_parsing and not args  # the shell completes names of commands
        words = args if completing else arrange(args, self._entries, self._default, ctx.command_path)
        return super().parse_args(ctx, words)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order of the table."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import a command."""
        if cmd_name not in self._entries:
            return None
        module, _, attribute = self._entries[cmd_name].where.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self._entries.items()])


def arrange(words: Sequence[str], commands: Collection[str], default: str, group: str) -> list[str]:
    """The words, with the default command's name in front unless they begin with a command.

    A node with the name of a command needs the command before it: ``hangtop watch demo``. Raises
    :class:`click.UsageError` for a command after other words, and for a mistyped one such as ``triag``.
    """
    first = words[0] if words else ""
    if first in commands or first in ALONE:
        return list(words)
    if late := next((word for word in words if word in commands), ""):
        raise click.UsageError(
            f"the command comes first: {group} {late}; a node of that name: {group} {default} {late}"
        )
    if first.isalpha():
        from difflib import get_close_matches  # a hundredth of a second

        if meant := get_close_matches(first, commands, 1, ALIKE):
            raise click.UsageError(f"is {group} {meant[0]} meant? A node named {first}: {group} {default} {first}")
    return [default, *words]


_PROBES, _REPAIRS = "hangtop.cli.probe", "hangtop.cli.repair"
PROBE = DefaultGroup(
    "probe",
    {
        "collectives": CommandEntry(f"{_PROBES}:collectives", "all_reduce between nodes; name what is slow or wrong."),
        "path": CommandEntry(f"{_PROBES}:path", "TCP between nodes: connect, round trip, MTU, loss, throughput."),
        "infiniband": CommandEntry(f"{_PROBES}:infiniband", "InfiniBand and RoCE between nodes, by the nodes' tools."),
        "capture": CommandEntry(f"{_PROBES}:capture", "TCP headers of the job's network, with tcpdump, as pcap files."),
    },
    "collectives",
    help="Measure between nodes: collectives (the default), the network path under them, InfiniBand, packets.",
)
REPAIR = DefaultGroup(
    "repair",
    {
        "list": CommandEntry(f"{_REPAIRS}:list_command", "List what can be repaired now. Changes nothing."),
        "orphans": CommandEntry(f"{_REPAIRS}:orphans", "End processes that an earlier run left behind."),
        "continue": CommandEntry(f"{_REPAIRS}:continue_command", "Continue stopped ranks (state T)."),
    },
    "list",
    help="Repair, after asking: orphans of an earlier run, stopped ranks.",
)
COMMANDS: dict[str, CommandEntry] = {
    "watch": CommandEntry("hangtop.cli.screen:command", "Watch a running job, live. The default: `hangtop gpu[1-8]`."),
    "demo": CommandEntry("hangtop.cli.demo:command", "Start a small real job on simulated nodes and watch it live."),
    "triage": CommandEntry("hangtop.cli.triage:triage", "Watch for a few seconds, give the verdict and its exit code."),
    "stacks": CommandEntry("hangtop.cli.stacks:command", "Show the stacks of all ranks, with equal stacks grouped."),
    "analyze": CommandEntry("hangtop.cli.analyze:command", "Judge a finished job from logs, dumps and tool output."),
    "flame": CommandEntry(f"{_PROBES}:flame", "Sample ranks for some seconds and save a flame graph."),
    "preflight": CommandEntry(f"{_PROBES}:preflight", "Check nodes before a job: what would stop it, and the remedy."),
    "probe": CommandEntry("hangtop.cli.groups:PROBE", "Measure all_reduce between nodes; name what is slow or wrong."),
    "repair": CommandEntry(
        "hangtop.cli.groups:REPAIR", "Repair, after asking: orphans of earlier runs, stopped ranks."
    ),
    "record": CommandEntry("hangtop.cli.triage:record", "Watch without a screen and write a recording."),
    "replay": CommandEntry("hangtop.cli.replay:command", "Show a recording on the screen, or judge it."),
}
"""To add a command, write its function and add its line."""
