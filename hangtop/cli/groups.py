"""Every command by name, and groups that mean one of their commands where the words name none.

A command's module is imported when the command is asked for, so that a start imports little.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click


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
    "flame": CommandEntry("hangtop.cli.stacks:flame", "Sample ranks for some seconds and save flame graphs."),
    "preflight": CommandEntry(
        "hangtop.cli.preflight:command", "Check nodes before a job: what would stop it, and the remedy."
    ),
    "probe": CommandEntry(
        "hangtop.cli.probe:command", "Measure collectives between nodes; name what is slow, blocked or wrong."
    ),
    "evidence": CommandEntry(
        "hangtop.cli.evidence:command",
        "List what the job itself can tell (recorder, RAS), and what is missing.",
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
LIKE = 0.8
"""How much a word must be like a command's name to be taken for a slip of the finger: ``triagee``, ``analyse``."""
ALONE = {"--help", "-h", "--version"}
"""Options of ``hangtop`` itself."""


def load(name: str) -> click.Command:
    """Import a command."""
    module, _, attribute = COMMANDS[name].where.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    return command


class LazyGroup(click.Group):
    """``hangtop`` itself: knows its commands by name and imports one when it is wanted."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command's name first: ``hangtop gpu[1-8]`` is ``hangtop watch gpu[1-8]``."""
        completing = ctx.resilient_parsing and first_plain(args) is None  # the shell asks for names of commands
        return super().parse_args(ctx, args if completing else arrange(args))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import a command."""
        return load(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


class DefaultGroup(click.Group):
    """``hangtop probe node1 node2`` is ``hangtop probe collectives node1 node2``."""

    def __init__(self, name: str, *, default: str, commands: Mapping[str, click.Command], help: str) -> None:  # noqa: A002 - click's name
        super().__init__(
            name, commands=dict(commands), help=help, no_args_is_help=False,
            subcommand_metavar=f"[{default}] [ARGS]... | COMMAND [ARGS]...",
        )  # fmt: skip
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command's name in front, the default one's when none is given."""
        at = first_plain(args)
        if at is not None and args[at] in self.commands:
            args = [args[at], *args[:at], *args[at + 1 :]]
        elif ctx.resilient_parsing and at is None:
            pass  # the shell asks for names of commands
        elif not args or args[0] not in {"--help", "-h"}:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """List the commands with the whole of their first paragraph: click cuts it at one line."""
        commands = sorted(self.commands.items())
        rows = [(name, " ".join((command.help or "").partition("\n\n")[0].split())) for name, command in commands]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def arrange(words: Sequence[str]) -> list[str]:
    """Put the command's name in front, adding the default one when the words name none.

    Options may come before the command (``hangtop -F lab.conf triage node1``); the first word that is neither an option
    nor its value is the command, if it is the name of one. A node that has a command's name is reached with the
    command before it: ``hangtop watch demo``.
    """
    first = words[0] if words else ""
    if first in COMMANDS or first in ALONE:
        return list(words)
    at = first_plain(words)
    if at is not None and words[at] in COMMANDS:
        return [words[at], *words[:at], *words[at + 1 :]]
    if at is not None:
        _refuse_slip(words[at])
    return [DEFAULT, *words]


def _refuse_slip(word: str) -> None:
    """Raise :class:`click.UsageError` for a word that was most likely meant for a command, and is the name of none."""
    from difflib import get_close_matches

    near = get_close_matches(word, COMMANDS, 1, LIKE) if word.isalpha() else []
    if near:
        raise click.UsageError(
            f"no command is called {word}; did you mean hangtop {near[0]}? "
            f"A node of that name: hangtop {DEFAULT} {word}"
        )


def first_plain(words: Sequence[str]) -> int | None:
    """Index of the first word that is neither an option nor its value; None when there is none."""
    from hangtop.cli.options import options_with_value

    taking, skip = options_with_value(), False
    for index, word in enumerate(words):
        if skip:
            skip = False
        elif word == "--":
            return None
        elif word.startswith("-") and word != "-":
            skip = word in taking
        else:
            return index
    return None
