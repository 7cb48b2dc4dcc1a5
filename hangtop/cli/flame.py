"""``hangtop flame NODE…``: where ranks spend their time, sampled for some seconds, as flame graphs."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import click

from hangtop.cli.common import connection_but, nodes
from hangtop.cli.connecting import connected_session, need_a_node
from hangtop.cli.layout import LaidOut
from hangtop.cli.ranks import Ranks
from hangtop.cli.running import interrupted_cleanly
from hangtop.cli.status import Status
from hangtop.diagnosis.phrasing import rank_text
from hangtop.session.asking.flames import FlameGraph, flame_commands, record_flames
from hangtop.session.options import SessionOptions

SHOWN = 24
"""Lines of the tree that are printed; the files have all."""
LEAST = 0.02
"""Share of samples under which a frame is not printed."""


@click.command("flame", cls=LaidOut)
@nodes
@connection_but("interval", "patience", "logs", "sudo")
@click.option("--rank", "ranks", type=Ranks(), help="Only these ranks, such as 3,7-9.")
@click.option(
    "--seconds", metavar="S", type=click.FloatRange(1, 600), default=10.0, show_default=True, help="How long to sample."
)
@click.option("--out", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), default=Path(),
              show_default=True, help="Folder for the files.")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context, options: SessionOptions, ranks: frozenset[int] | None, seconds: float, out: Path
) -> None:
    """Sample the stacks of ranks for some seconds, without pausing them; Ctrl-C stops early and keeps what there is.

    Saves an SVG and a file for https://www.speedscope.app, and prints the heaviest frames. Exit code: 0 when every rank
    gave samples, 1 when one did not, 2 wrong usage, 3 no node reachable.
    """
    graph = interrupted_cleanly(_record(options, ranks, seconds, out))
    for line in heaviest(graph):
        click.echo(line)
    click.echo(f"\n{graph.saved.svg}\n{graph.saved.speedscope}")
    for rank, why in sorted(graph.errors.items()):
        click.echo(f"{rank_text(rank)}: {why}", err=True)
    ctx.exit(int(bool(graph.errors) or not graph.tree.samples))


async def _record(options: SessionOptions, ranks: frozenset[int] | None, seconds: float, out: Path) -> FlameGraph:
    status = Status()
    stop = asyncio.Event()
    async with connected_session(options, status) as session:
        need_a_node(session)
        for node, words in flame_commands(session, ranks, seconds).items():
            click.echo(f"on {node}: {words}", err=True)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
        name = time.strftime("flame-%Y%m%d-%H%M%S")
        return await record_flames(
            session, ranks, seconds=seconds, folder=out, name=name, stop=stop,
            on_progress=lambda done, on: status.say(f"sampling on {on} nodes: {done:.0f} of {seconds:.0f} s"),
        )  # fmt: skip


def heaviest(graph: FlameGraph) -> list[str]:
    """The tree as text, heaviest first, without what is too small to matter."""
    total = graph.tree.samples
    lines = [
        f"{100 * frame.samples / total:5.1f} %  {'  ' * depth}{frame.name}"
        for depth, frame in graph.tree.walk()
        if depth and frame.samples >= LEAST * total
    ]
    return lines[:SHOWN] + ([f"… {len(lines) - SHOWN} more lines in the files"] if len(lines) > SHOWN else [])
