"""``hangtop flame NODE…``: where ranks spend their time, sampled for some seconds, as flame graphs."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import click

from hangtop.cli.node_command import NodeRun, Reply, node_command
from hangtop.cli.options import Ranks
from hangtop.diagnosis.phrasing import rank_text
from hangtop.session.asking.flames import FlameGraph, flame_commands, record_flames

SHOWN = 24
"""Lines of the tree that are printed; the files have all."""
LEAST = 0.02
"""Share of samples under which a frame is not printed."""


@node_command("flame", json="docs/stacks.md", hidden=("interval", "patience", "logs", "sudo", "read_only"))
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
    for node, words in flame_commands(run.session, ranks, seconds).items():
        click.echo(f"on {node}: {words}", err=True)
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    graph = await record_flames(
        run.session, ranks, seconds=seconds, folder=out, name=time.strftime("flame-%Y%m%d-%H%M%S"), stop=stop,
        on_progress=lambda done, on: run.status.say(f"sampling on {on} nodes: {done:.0f} of {seconds:.0f} s"),
    )  # fmt: skip
    for rank, why in sorted(graph.errors.items()):
        click.echo(f"{rank_text(rank)}: {why}", err=True)
    document = {
        "svg": str(graph.saved.svg), "speedscope": str(graph.saved.speedscope), "samples": graph.tree.samples,
        "errors": {str(rank): why for rank, why in sorted(graph.errors.items())},
    }  # fmt: skip
    lines = [*heaviest(graph), "", str(graph.saved.svg), str(graph.saved.speedscope)]
    return Reply(document, lines, int(bool(graph.errors) or not graph.tree.samples))


def heaviest(graph: FlameGraph) -> list[str]:
    """The tree as text, heaviest first, without what is too small to matter."""
    total = graph.tree.samples
    lines = [
        f"{100 * frame.samples / total:5.1f} %  {'  ' * depth}{frame.name}"
        for depth, frame in graph.tree.walk()
        if depth and frame.samples >= LEAST * total
    ]
    return lines[:SHOWN] + ([f"… {len(lines) - SHOWN} more lines in the files"] if len(lines) > SHOWN else [])
