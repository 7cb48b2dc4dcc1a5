"""How a command's help is laid out: its own options first, then those that it shares with others, by their subject."""

from __future__ import annotations

from typing import Any

import click

OWN = "Options"
NODES = "Nodes, and how they are reached (without NODE: this machine, without SSH)"
LOOKING = "What is looked at, and how"
SCREEN = "Screen"
ORDER = (OWN, NODES, LOOKING, SCREEN)


class SharedOption(click.Option):
    """An option that several commands have, listed under the heading ``section``."""

    def __init__(self, *args: Any, section: str = OWN, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.section = section


class LaidOut(click.Command):
    """A command whose help begins with what it alone can be told."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A list of options for each heading; among its own those last that it shares, ``--config`` and ``--help``."""
        found: dict[str, list[tuple[str, str]]] = {section: [] for section in ORDER}
        for param in sorted(self.get_params(ctx), key=_place):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                found[param.section if isinstance(param, SharedOption) else OWN].append(record)
        for section, rows in found.items():
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)


def _place(param: click.Parameter) -> int:
    return 2 if "--help" in param.opts else int(isinstance(param, SharedOption))
