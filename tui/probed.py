"""Probes of collectives and of the path on the screen: command, progress that can be stopped, figures and findings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hangtop.session.probed.shades import Line, Shade
from tui.text import harmless
from tui.theme import Tone
from tui.widgets.lines import Piece

if TYPE_CHECKING:
    from collectors.probes.allreduce.plan import ProbePlan
    from hangtop.diagnosis.finding import Finding
    from tui.app import HangtopApp

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


def _plan(app: HangtopApp) -> ProbePlan | str:
    """What will be run, or why nothing can be."""
    from hangtop.session.asking.probing import ProbeRefused, plan_probe  # here: the first frame does without probes

    try:
        return plan_probe(app.session.job(), python=app.session.options.python or "")
    except ProbeRefused as refused:
        return str(refused)


def collectives_command(app: HangtopApp) -> str:
    """The exact command of the collective probe, or why there can be none."""
    from collectors.probes.allreduce.run import describe

    plan = _plan(app)
    if isinstance(plan, str):
        return f"nothing: {plan}"
    return f"on {', '.join(node.name for node in plan.nodes)}: {describe(plan)}"


async def probe_collectives(app: HangtopApp) -> None:
    """Measure collectives between all nodes, and show figures and findings; Escape stops it on every node."""
    from hangtop.session.probed.answer import probe
    from hangtop.session.probed.lines import answer_lines
    from tui.dialogs.running import Content, Say, run_shown

    plan = _plan(app)
    if isinstance(plan, str):
        app.say(plan, "warning")
        return

    async def work(say: Say) -> tuple[str, Content]:
        answer = await probe(app.session, plan, say)
        report = answer.report
        content = _content(answer.outcome, answer.summary, answer_lines(answer), answer.findings)
        return f"collective probe, {report.backend}, {report.world_size} ranks, {report.took:.1f} s", content

    await run_shown(app, f"collective probe, {plan.backend}, {len(plan.nodes)} nodes", work)


def path_command(app: HangtopApp) -> str:
    """The exact command of the path probe."""
    del app  # the same on every node
    from collectors.probes.path.survey import describe

    return f"on every node: {describe()}"


async def probe_path(app: HangtopApp) -> None:
    """Measure the path between all nodes, and show figures and findings; Escape stops it on every node."""
    from hangtop.session.asking.paths import measure
    from hangtop.session.asking.probing import path_nodes
    from hangtop.session.probed.path_lines import path_lines
    from tui.dialogs.running import Content, Say, run_shown

    job = app.session.job()
    taking_part, absent = path_nodes(app.session, job)

    async def work(say: Say) -> tuple[str, Content]:
        try:
            result = await measure(job, taking_part, absent, progress=say)
        except asyncio.CancelledError:  # by then nothing is left on the nodes
            return "path probe", _content("cancelled", "stopped on request", (), ())
        title = f"path probe, {result.report.world_size} nodes, {result.report.took:.1f} s"
        return title, _content(result.outcome, result.summary, path_lines(result), result.findings)

    await run_shown(app, f"path probe, {len(taking_part)} nodes", work)


def _content(outcome: str, summary: str, lines: Iterable[Line], found: Iterable[Finding]) -> list[list[Piece]]:
    """An answer as every probe shows it."""
    from tui.asked import findings_text

    head: list[list[Piece]] = [[(outcome.upper(), Tone.STRONG), (f"  {harmless(summary)}", Tone.TEXT)], []]
    return [*head, *map(toned, lines), [], *findings_text(found)]
