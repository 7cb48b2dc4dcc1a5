"""A group of commands of which one is meant when none is named."""

from __future__ import annotations

from collections.abc import Mapping

import click

from hangtop.cli.words import first_plain


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
