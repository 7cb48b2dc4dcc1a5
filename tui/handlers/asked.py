"""Actions that ask nodes or job for more than they send: environment lint, dumps, flame graphs.

Each shows its answer as text over the panels. What touches the job is confirmed first: ``tui.actions`` sees to that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.phrasing import rank_text
from hangtop.session.state.changes import Change
from tui.intent import Intent
from tui.looks.format import plural
from tui.looks.text import harmless
from tui.looks.theme import Tone
from tui.widgets.lines import Content

if TYPE_CHECKING:
    from hangtop.diagnosis.job import Rank
    from tui.host import Host

LONGEST = 600
"""Characters of a proof that are told."""
FLAME_SECONDS = 10.0
SEVERITY = {"critical": Tone.BAD, "warning": Tone.WARN, "info": Tone.INFO}


def _plain(lines: Iterable[str], tone: Tone = Tone.TEXT) -> Content:
    return [[(harmless(line), tone)] for line in lines]


def findings_text(found: Iterable[Finding]) -> Content:
    """Findings as text: what, where, proof, advice; each whole, as dialogs break lines for the width that they have."""
    content: Content = []
    for finding in found:
        tone = SEVERITY[finding.severity]
        content += [[]] if content else []
        content.append([(finding.kind, tone), (f"  {finding.certainty}", Tone.DIM)])
        content += _plain([finding.summary])
        for piece in finding.evidence[:4]:
            text = harmless(piece.text)
            told = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
            content.append([("  " + harmless(piece.source) + "  ", Tone.DIM), (told, Tone.TEXT)])
        if finding.advice:
            content.append([("  → ", Tone.INFO), (harmless(finding.advice), Tone.INFO)])
    return content


# --- environment -------------------------------------------------------------------------------------------------


def lint_environment(app: Host) -> None:
    """Show what is wrong with the settings of all ranks."""
    from hangtop.diagnosis.environment.lint import lint

    found = lint(app.session.job())
    content = findings_text(found) if found else _plain(["nothing to object to in the settings of the ranks seen"])
    app.answer("Environment lint", content)


# --- flight recorder ---------------------------------------------------------------------------------------------


PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"


def _armed(app: Host) -> list[Rank]:
    """Living ranks whose recorder can be asked by a pipe."""
    return [rank for rank in app.session.job().ranks if rank.gone_at is None and PIPE in rank.process.env]


def recorder_intent(app: Host) -> Intent:
    """What is done on the nodes to have fresh dumps."""
    asked = _armed(app)
    if not asked:
        return Intent("no rank can be asked for a dump; those that lie on the nodes are fetched", HOW_TO_ENABLE)
    nodes = plural(len({rank.node for rank in asked}), "node")
    brief = f"{plural(len(asked), 'rank')} on {nodes}, one byte into the pipe of each, then the dumps are fetched"
    pipes = [f"on {rank.node}: printf 1 > {rank.process.env[PIPE]}{rank.rank}.pipe" for rank in asked]
    return Intent(f"{brief}; the job goes on", "\n".join(pipes))


HOW_TO_ENABLE = (
    "nothing can be asked: start the job with TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/fr_pipe_ and "
    "TORCH_FR_DUMP_TEMP_FILE=/tmp/fr_ ; dumps that lie on the nodes are fetched all the same"
)


async def ask_recorders(app: Host) -> None:
    """Ask the ranks for fresh dumps, fetch all, and say what every rank has."""
    app.say("asking for flight recorder dumps …")
    dumps = await app.session.witnesses.recorders(fresh=True)
    if any(dump.size for dump in dumps):
        text = f"flight recorder dumps of {plural(sum(bool(dump.size) for dump in dumps), 'rank')}"
        app.head.state.changes.append(Change(app.head.now(), "", text, "dump"))
    content: Content = []
    for dump in sorted(dumps, key=lambda dump: dump.rank):
        got = f"{dump.size:,} bytes from {dump.path}" if dump.size else dump.why
        content.append([(f"{rank_text(dump.rank):<10}", Tone.STRONG), (harmless(f"{dump.node}  {got}"), Tone.TEXT)])
    if dumps and not any(dump.size for dump in dumps) and not _armed(app):
        content += [[], *_plain([HOW_TO_ENABLE], Tone.INFO)]
    app.answer("Flight recorder dumps; findings are made of them", content or _plain(["no living rank"]))


# --- flame graphs ------------------------------------------------------------------------------------------------


_stops: WeakKeyDictionary[Host, asyncio.Event] = WeakKeyDictionary()
"""What ends the recording that runs, by application."""


def flame_graph(app: Host) -> None:
    """Sample the chosen ranks for some seconds, in the background; pressed again, it stops early."""
    if app in _stops:
        _stops[app].set()
        return
    ranks = app.panel.chosen_ranks()
    if not ranks:
        app.say("no rank here: mark ranks, or go to one", "warning")
        return
    _stops[app] = asyncio.Event()
    app.say(f"sampling for {FLAME_SECONDS:.0f} s, without pausing anything; f stops early")
    app.run_worker(_flame(app, ranks, _stops[app]), name="flame", exit_on_error=False)


async def _flame(app: Host, ranks: set[int], stop: asyncio.Event) -> None:
    """Record, save SVG and speedscope files, and show the tree."""
    from hangtop.session.asking.flames import record_flames

    try:
        graph = await record_flames(
            app.session,
            ranks,
            seconds=FLAME_SECONDS,
            folder=app.options.report_folder or Path.cwd(),
            name=time.strftime("flame-%Y%m%d-%H%M%S"),
            on_progress=lambda _seconds, _nodes: None,
            stop=stop,
        )
    except OSError as error:
        app.say(f"the flame graph could not be written: {error}", "error")
        return
    finally:
        del _stops[app]
    total = graph.tree.samples
    least = max(1, total // 50)
    tree = [
        f"{frame.samples / total:>5.0%}  {'  ' * depth}{frame.name}"
        for depth, frame in graph.tree.walk()
        if frame.samples >= least
    ]
    errors = [f"{rank_text(rank)}: {why}" for rank, why in sorted(graph.errors.items())]
    head = [f"saved: {graph.saved.svg}", f"saved: {graph.saved.speedscope}", *errors, ""]
    app.answer(f"Flame graph, {total} samples", _plain([*head, *tree]))
