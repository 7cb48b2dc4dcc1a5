"""``hangtop probe …``: the probes by name; without a name, collectives are measured."""

from __future__ import annotations

import click

from hangtop.cli.probe_collectives import command as collectives
from hangtop.cli.probe_path import command as path
from hangtop.cli.words import first_plain


class ProbeGroup(click.Group):
    """``hangtop probe node1 node2`` is ``hangtop probe collectives node1 node2``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the probe's name in front, the default one's when none is given."""
        at = first_plain(args)
        if at is not None and args[at] in self.commands:
            args = [args[at], *args[:at], *args[at + 1 :]]
        elif not args or args[0] not in {"--help", "-h"}:
            args = ["collectives", *args]
        return super().parse_args(ctx, args)


command = ProbeGroup(
    "probe",
    commands={"collectives": collectives, "path": path},
    help="Measure between nodes: collectives (the default) or the path under them.",
    no_args_is_help=False,
)
