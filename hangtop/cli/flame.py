"""``hangtop flame NODE…``: where ranks spend their time, sampled for some seconds, as flame graphs."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click

from hangtop.cli.node_command import NodeRun, Reply, node_command
from hangtop.cli.options import Ranks
from hangtop.session.probes import ProbeRefused, plain
from hangtop.session.probes.flame import flame_probe


@node_command("flame", json="docs/findings.md", hidden=("interval", "patience", "logs", "sudo", "read_only"))
@click.option("--rank", "ranks", type=Ranks(), help="Only these ranks, such as 3,7-9.")
@click.option(
    "--seconds", metavar="S", type=click.FloatRange(1, 600), default=10.0, show_default=True, help="How long to sample."
)
@click.option("--out", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), default=Path(),
              show_default=True, help="Folder for the files.")  # fmt: skip
async def command(run: NodeRun, ranks: frozenset[int] | None, seconds: float, out: Path) -> Reply:
    """Sample the stacks of ranks for some seconds, without pausing them; Ctrl-C stops early and keeps what there is.

    Saves an SVG and a file for https://www.speedscope.app, and prints the heaviest frames. Exit code: 0 when every rank
    gave samples, 1 when one did not, 2 wrong usage, 3 no node reachable.
    """
    stop = asyncio.Event()
    probe = flame_probe(run.session, ranks, out, seconds=seconds, stop=stop)
    click.echo(probe.command, err=True)
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    try:
        result = await probe.run(run.status.say)
    except ProbeRefused as refused:
        raise click.ClickException(str(refused)) from None
    return Reply(dict(result.figures), plain(result.lines), int(result.outcome != "ok"))
