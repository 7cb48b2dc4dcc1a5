"""What can be measured or asked of nodes and job: each as a probe, which says what it does before it is run."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hangtop.diagnosis.phrasing import rank_text
from hangtop.session.state.changes import Change
from tui.handlers.ask import ActionRefused, asks, offer, run
from tui.looks.format import plural
from tui.looks.theme import Colour
from tui.texts.findings import findings_text, plain

if TYPE_CHECKING:
    from hangtop.session.probes import Line, Probe, ProbeResult, Say
    from tui.app import HangtopApp
    from tui.widgets.lines import Content

FLAME_SECONDS = 10.0
CAPTURE_SECONDS, CAPTURE_BYTES = 5.0, 16_000_000
MOST, MARGIN = 144, 10
"""Cells of text in a dialog at its widest; cells of the screen that it leaves."""
HERE = "here:"
WHICH_TRACES: Content = [
    [("Files, folders or globs on the nodes: /tmp/traces  /scratch/run7/*.json.gz", Colour.DIM)],
    [(f"On this machine, after {HERE}  {HERE}~/traces", Colour.DIM)],
    [("Only their figures are sent; a trace of any size is read in bounded memory.", Colour.DIM)],
]
PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
HOW_TO_ENABLE = (
    "nothing can be asked: start the job with TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/fr_pipe_ and "
    "TORCH_FR_DUMP_TEMP_FILE=/tmp/fr_ ; dumps that lie on the nodes are fetched all the same"
)


def lint_environment(app: HangtopApp) -> None:
    """Show what is wrong with the settings of all ranks."""
    from hangtop.diagnosis.environment.lint import lint

    found = lint(app.session.job())
    told = findings_text(found) if found else plain(["nothing to object to in the settings of the ranks seen"])
    app.answer("Environment lint", told)


def collectives(app: HangtopApp) -> Probe:
    """Measure collectives between all nodes."""
    from hangtop.session.probes.collectives import collectives_probe

    return collectives_probe(app.session)


def path(app: HangtopApp) -> Probe:
    """Measure the path between all nodes."""
    from hangtop.session.probes.path import path_probe

    return path_probe(app.session)


def recorders(app: HangtopApp) -> Probe:
    """Ask the ranks for fresh dumps of their flight recorders."""
    from hangtop.session.probes import Probe, ProbeResult

    living = [rank for rank in app.session.job().ranks if rank.gone_at is None]
    armed = [rank for rank in living if PIPE in rank.process.env]
    nodes = plural(len({rank.node for rank in armed}), "node")
    brief = f"{plural(len(armed), 'rank')} on {nodes}, one byte into the pipe of each, then the dumps are fetched"
    command = "\n".join(f"on {rank.node}: printf 1 > {rank.process.env[PIPE]}{rank.rank}.pipe" for rank in armed)
    if not armed:
        brief, command = "no rank can be asked for a dump; those that lie on the nodes are fetched", HOW_TO_ENABLE

    async def ask(_: Say) -> ProbeResult:
        dumps = await app.session.job_sources.recorders(fresh=True)
        came = sum(bool(dump.size) for dump in dumps)
        summary = f"flight recorder dumps of {plural(came, 'rank')}; findings are made of them"
        if came:
            app.head.state.changes.append(Change(app.head.now(), "", summary.partition(";")[0], "dump"))
        lines: list[Line] = []
        for dump in sorted(dumps, key=lambda dump: dump.rank):
            got = f"{dump.size:,} bytes from {dump.path}" if dump.size else dump.why
            lines.append([(f"{rank_text(dump.rank):<10}", "strong"), (f"{dump.node}  {got}", "")])
        if dumps and not came and not armed:
            lines += [[], [(HOW_TO_ENABLE, "accent")]]
        return ProbeResult("Flight recorder dumps", "ok" if came else "failed", summary, tuple(lines))

    return Probe("Flight recorder", f"{brief}; the job goes on", command, ask)


async def flame_graph(app: HangtopApp) -> None:
    """Sample the chosen ranks for some seconds, without pausing them: it only reads, so nobody is asked."""
    from hangtop.session.probes.flame import flame_probe

    ranks = app.panel.chosen_ranks()
    if not ranks:
        raise ActionRefused("no rank here: mark ranks, or go to one")
    stop = asyncio.Event()
    probe = flame_probe(app.session, ranks, _folder(app), seconds=FLAME_SECONDS, stop=stop)
    app.run_worker(run(app, probe, stop=stop.set), name=probe.title, exit_on_error=False)


def capture(app: HangtopApp) -> Probe:
    """Capture packet headers of the job's network."""
    from hangtop.session.probes.capture import capture_probe

    return capture_probe(app.session, _folder(app), seconds=CAPTURE_SECONDS, most=CAPTURE_BYTES, sudo=True)


def fabric(app: HangtopApp) -> Awaitable[Probe]:
    """Measure InfiniBand and RoCE with the nodes' own tools."""
    from hangtop.session.probes.infiniband import infiniband_probe

    return infiniband_probe(app.session)


MEASUREMENTS: tuple[tuple[str, str, Callable[[HangtopApp], Probe | Awaitable[Probe]]], ...] = (
    ("Capture packets of the job's network", "headers for 5 s with tcpdump, as files for Wireshark", capture),
    ("Measure InfiniBand and RoCE", "ports, bandwidth of every pair, ibping and ibtracert, with the nodes' tools",
     fabric),
)  # fmt: skip
"""Title, what it does, and its probe. To add a measurement, write its probe and add its line."""


def open_measurements(app: HangtopApp) -> None:
    """List what else can be measured; each one asks."""
    from tui.dialogs.asking import ChoiceDialog

    def take(place: int | None) -> None:
        if place is not None:
            asks(MEASUREMENTS[place][2])(app)

    choices = [(title, does) for title, does, _ in MEASUREMENTS]
    app.push_screen(ChoiceDialog("What else can be measured", choices), take)


def ask_traces(app: HangtopApp) -> None:
    """Ask where profiler traces are, then read them in view."""
    from tui.dialogs.asking import LineDialog

    def take(said: str | None) -> None:
        if said and said.strip():
            _read_traces(app, said.strip())

    app.push_screen(LineDialog("Profiler traces", WHICH_TRACES), take)


def _read_traces(app: HangtopApp, said: str) -> None:
    from hangtop.session.probes.traces import traces_here, traces_on_nodes

    try:
        patterns = shlex.split(said.removeprefix(HERE))
    except ValueError as error:
        app.say(f"{said}: {error}", "warning")
        return
    if said.startswith(HERE):
        offer(app, traces_here(patterns, app.session, _width(app)))
    else:
        offer(app, traces_on_nodes(app.session, patterns, _width(app)))


def _width(app: HangtopApp) -> int:
    return max(40, min(MOST, app.size.width - MARGIN))


def _folder(app: HangtopApp) -> Path:
    """Where files of answers go."""
    return app.options.report_folder or Path.cwd()
