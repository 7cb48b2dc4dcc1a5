"""What can be measured or asked of nodes and job: each as an order, which says what it does before it is run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hangtop.diagnosis.phrasing import rank_text
from hangtop.session.state.changes import Change
from tui.handlers.ask import asks, probe_order
from tui.looks.format import plural
from tui.looks.theme import Tone
from tui.order import Answer, Order, Refused, Say
from tui.texts.answers import findings_text, plain

if TYPE_CHECKING:
    from tui.host import Host
    from tui.widgets.lines import Content

FLAME_SECONDS = 10.0
CAPTURE_SECONDS, CAPTURE_BYTES = 5.0, 16_000_000
PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
HOW_TO_ENABLE = (
    "nothing can be asked: start the job with TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/fr_pipe_ and "
    "TORCH_FR_DUMP_TEMP_FILE=/tmp/fr_ ; dumps that lie on the nodes are fetched all the same"
)


def lint_environment(app: Host) -> None:
    """Show what is wrong with the settings of all ranks."""
    from hangtop.diagnosis.environment.lint import lint

    found = lint(app.session.job())
    told = findings_text(found) if found else plain(["nothing to object to in the settings of the ranks seen"])
    app.answer("Environment lint", told)


async def collectives(app: Host) -> Order:
    """Measure collectives between all nodes."""
    from hangtop.session.probes.collectives import collectives_probe

    return probe_order(collectives_probe(app.session))


async def path(app: Host) -> Order:
    """Measure the path between all nodes."""
    from hangtop.session.probes.path import path_probe

    return probe_order(path_probe(app.session))


async def recorders(app: Host) -> Order:
    """Ask the ranks for fresh dumps of their flight recorders."""
    living = [rank for rank in app.session.job().ranks if rank.gone_at is None]
    armed = [rank for rank in living if PIPE in rank.process.env]
    nodes = plural(len({rank.node for rank in armed}), "node")
    brief = f"{plural(len(armed), 'rank')} on {nodes}, one byte into the pipe of each, then the dumps are fetched"
    command = "\n".join(f"on {rank.node}: printf 1 > {rank.process.env[PIPE]}{rank.rank}.pipe" for rank in armed)
    if not armed:
        brief, command = "no rank can be asked for a dump; those that lie on the nodes are fetched", HOW_TO_ENABLE

    async def work(_: Say) -> Answer:
        dumps = await app.session.witnesses.recorders(fresh=True)
        came = sum(bool(dump.size) for dump in dumps)
        if came:
            text = f"flight recorder dumps of {plural(came, 'rank')}"
            app.head.state.changes.append(Change(app.head.now(), "", text, "dump"))
        content: Content = []
        for dump in sorted(dumps, key=lambda dump: dump.rank):
            got = f"{dump.size:,} bytes from {dump.path}" if dump.size else dump.why
            content.append([(f"{rank_text(dump.rank):<10}", Tone.STRONG), (f"{dump.node}  {got}", Tone.TEXT)])
        if dumps and not came and not armed:
            content += [[], *plain([HOW_TO_ENABLE], Tone.INFO)]
        return Answer("Flight recorder dumps; findings are made of them", content or plain(["no living rank"]))

    return Order("Flight recorder", f"{brief}; the job goes on", command, work)


async def flame_graph(app: Host) -> Order:
    """Sample the chosen ranks for some seconds, without pausing them."""
    from hangtop.session.probes.flame import flame_probe

    ranks = app.panel.chosen_ranks()
    if not ranks:
        raise Refused("no rank here: mark ranks, or go to one")
    stop = asyncio.Event()
    probe = flame_probe(app.session, ranks, folder(app), seconds=FLAME_SECONDS, stop=stop)
    return replace(probe_order(probe), brief="", command="", stop=stop.set)  # it only reads: nobody is asked


async def capture(app: Host) -> Order:
    """Capture packet headers of the job's network."""
    from hangtop.session.probes.capture import capture_probe

    probe = capture_probe(app.session, folder(app), seconds=CAPTURE_SECONDS, most=CAPTURE_BYTES, sudo=True)
    return probe_order(probe)


async def fabric(app: Host) -> Order:
    """Measure InfiniBand and RoCE with the nodes' own tools."""
    from hangtop.session.probes.infiniband import infiniband_probe

    return probe_order(await infiniband_probe(app.session))


MEASUREMENTS: tuple[tuple[str, str, Callable[[Host], object]], ...] = (
    ("Capture packets of the job's network", "headers for 5 s with tcpdump, as files for Wireshark", asks(capture)),
    ("Measure InfiniBand and RoCE", "ports, bandwidth of every pair, ibping and ibtracert, with the nodes' tools",
     asks(fabric)),
)  # fmt: skip
"""Title, what it does, and its handler. To add a measurement, write its order and add its line."""


def open_measurements(app: Host) -> None:
    """List what else can be measured; each one asks."""
    from tui.dialogs.choosing import Choice, ChoiceDialog

    def take(place: int | None) -> None:
        if place is not None:
            MEASUREMENTS[place][2](app)

    choices = [Choice(title, does) for title, does, _ in MEASUREMENTS]
    app.push_screen(ChoiceDialog("What else can be measured", choices), take)


def folder(app: Host) -> Path:
    """Where files of answers go."""
    return app.options.report_folder or Path.cwd()
