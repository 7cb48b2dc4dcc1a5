"""Groups of commands of which one is meant when the words name none, wherever its name stands among them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence

import click

from hangtop.cli.registry import COMMANDS, DEFAULT

LIKE = 0.8
"""How much a word must be like a command's name to be taken for a slip of the finger: ``triagee``, ``analyse``."""
ALONE = {"--help", "-h", "--version"}
"""Options of ``hangtop`` itself."""


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is wanted."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command's name first: ``hangtop gpu[1-8]`` is ``hangtop watch gpu[1-8]``."""
        return super().parse_args(ctx, arrange(args))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order of the registry."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import a command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.where.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

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
        elif not args or args[0] not in {"--help", "-h"}:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """List the commands with the whole of their first sentence: click cuts it at one line."""
        rows = [(name, _first_sentence(command.help or "")) for name, command in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _first_sentence(text: str) -> str:
    """What a command's help begins with, up to its first empty line, in one line."""
    return " ".join(text.partition("\n\n")[0].split())


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
    taking = _options_with_value()
    skip = False
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


def _options_with_value() -> set[str]:
    """Names of the shared options that take the next word."""
    from hangtop.cli.options import CONNECTION, SCREEN_OPTIONS

    probe = click.Command("probe")
    for decorate in (*CONNECTION, *SCREEN_OPTIONS):
        decorate(probe)
    return {
        name for param in probe.params if isinstance(param, click.Option) and not param.is_flag for name in param.opts
    }
