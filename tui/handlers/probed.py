"""Probes of collectives and of the path on the screen: command, progress that can be stopped, figures and findings."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hangtop.diagnosis.node_names import folded_names
from hangtop.diagnosis.phrasing import listed, outcome_words, size
from hangtop.session.probed.shades import Line, Shade
from tui.intent import Intent
from tui.looks.format import plural
from tui.looks.text import harmless
from tui.looks.theme import Tone
from tui.widgets.lines import Content, Piece

if TYPE_CHECKING:
    from collectors.probes.allreduce.plan import ProbePlan
    from hangtop.diagnosis.finding import Finding
    from tui.host import Host

STARTING = (2.0, 6.0)
"""Seconds until the processes of gloo, and those of NCCL, have found one another."""

TONES: dict[Shade, Tone] = {
    "": Tone.TEXT,
    "dim": Tone.DIM,
    "strong": Tone.STRONG,
    "good": Tone.OK,
    "middling": Tone.WARN,
    "bad": Tone.BAD,
}


def toned(line: Line) -> list[Piece]:
    """A line of an answer as the screen draws it."""
    return [(harmless(text), TONES[shade]) for text, shade in line]


def _plan(app: Host) -> ProbePlan | str:
    """What will be run, or why nothing can be."""
    from hangtop.session.asking.probing import ProbeRefused, plan_probe  # here: the first frame does without probes

    try:
        return plan_probe(app.session.job(), python=app.session.options.python or "")
    except ProbeRefused as refused:
        return str(refused)


def collectives_intent(app: Host) -> Intent:
    """What the collective probe does, or why there can be none."""
    from collectors.probes.allreduce.run import describe

    plan = _plan(app)
    if isinstance(plan, str):
        return Intent(f"nothing: {plan}", "")
    return Intent(told(plan), f"on {folded_names(node.name for node in plan.nodes)}: {describe(plan)}")


def told(plan: ProbePlan) -> str:
    """A probe in one line: ``2 nodes, all_reduce to 512 MiB, about 10 s, nccl, loads the network``."""
    what = f"{listed(plan.operations, 2)} to {size(max(plan.sizes)).replace('.0 ', ' ')}"
    seconds = STARTING[plan.backend == "nccl"] + 2 * plan.budget * len(plan.operations) * len(plan.sizes)
    about = f"about {5 * math.ceil(seconds / 5)} s"
    return f"{plural(len(plan.nodes), 'node')}, {what}, {about}, {plan.backend}, loads the network"


async def probe_collectives(app: Host) -> None:
    """Measure collectives between all nodes, and show figures and findings; Escape stops it on every node."""
    from hangtop.session.probed.answer import probe
    from hangtop.session.probed.lines import answer_lines
    from tui.dialogs.running import Say, run_shown

    plan = _plan(app)
    if isinstance(plan, str):
        app.say(plan, "warning")
        return

    async def work(say: Say) -> tuple[str, Content]:
        answer = await probe(app.session, plan, say)
        report = answer.report
        content = _content(answer.outcome, answer.summary, answer_lines(answer), answer.findings)
        return f"Collective probe, {report.backend}, {report.world_size} ranks, {report.took:.1f} s", content

    await run_shown(app, f"Collective probe, {plan.backend}, {len(plan.nodes)} nodes", work, app.keep)


def path_intent(app: Host) -> Intent:
    """What the path probe does."""
    from collectors.probes.path.survey import describe

    nodes = plural(len(app.scene.nodes), "node")
    brief = f"{nodes}, MTU, loss and throughput between all of them, about 5 s, loads the network"
    return Intent(brief, f"on every node: {describe()}")


async def probe_path(app: Host) -> None:
    """Measure the path between all nodes, and show figures and findings; Escape stops it on every node."""
    from hangtop.diagnosis.node_order import arrangement
    from hangtop.session.asking.paths import measure
    from hangtop.session.asking.probing import path_nodes
    from hangtop.session.probed.path_lines import path_lines
    from tui.dialogs.running import Say, run_shown

    job = app.session.job()
    taking_part, absent = path_nodes(app.session, job)

    async def work(say: Say) -> tuple[str, Content]:
        try:
            result = await measure(job, taking_part, absent, progress=say)
        except asyncio.CancelledError:  # by then nothing is left on the nodes
            return "Path probe", _content("cancelled", "stopped on request", (), ())
        title = f"Path probe, {result.report.world_size} nodes, {result.report.took:.1f} s"
        lines = path_lines(result, arrangement(job, set(job.nodes)))
        return title, _content(result.outcome, result.summary, lines, result.findings)

    await run_shown(app, f"Path probe, {len(taking_part)} nodes", work, app.keep)


def _content(outcome: str, summary: str, lines: Iterable[Line], found: Iterable[Finding]) -> list[list[Piece]]:
    """An answer as every probe shows it."""
    from tui.handlers.asked import findings_text

    head: list[list[Piece]] = [
        [(outcome_words(outcome).upper(), Tone.STRONG), (f"  {harmless(summary)}", Tone.TEXT)],
        [],
    ]
    return [*head, *map(toned, lines), [], *findings_text(found)]
