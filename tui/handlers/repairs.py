"""The key that mends: it lists what can be repaired now; each repair says what it does and asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hangtop.diagnosis.node_names import folded_names
from hangtop.session.state.changes import Change
from tui.handlers.ask import offer
from tui.looks.format import plural
from tui.texts.findings import plain

if TYPE_CHECKING:
    from collectors.probes.repair import Signal
    from hangtop.session.probes import ProbeResult, Say
    from hangtop.session.probes.repair import Repairable, RepairSurvey
    from tui.app import HangtopApp


class Repair(NamedTuple):
    """An entry of the list, and what choosing it does."""

    title: str
    detail: str
    choose: Callable[[HangtopApp], object]


def open_repairs(app: HangtopApp) -> None:
    """Look at all nodes in the background, then list what can be mended."""
    app.say("looking for orphans and stopped ranks …")
    app.run_worker(_open(app), name="repairs", exit_on_error=False, exclusive=True, group="repairs")


async def _open(app: HangtopApp) -> None:
    from hangtop.session.probes.repair import look
    from tui.dialogs.asking import ChoiceDialog

    looked = await look(app.session)
    listed = [*_signals(looked), *ALWAYS]
    silent: dict[str, list[str]] = {}
    for node, why in looked.unknown.items():
        silent.setdefault(why.removeprefix(f"{node}: "), []).append(node)
    notes = [f"not known of {folded_names(nodes)}: {why}" for why, nodes in silent.items()]

    def take(place: int | None) -> None:
        if place is not None:
            listed[place].choose(app)

    app.push_screen(ChoiceDialog("What can be mended now", [(one.title, one.detail) for one in listed], notes), take)


def _signals(found: RepairSurvey) -> list[Repair]:
    """Processes to end, and to continue; all of a kind first."""
    listed: list[Repair] = []
    if len(found.orphans) > 1:
        listed.append(
            _signal(f"End all {plural(len(found.orphans), 'orphan')} of earlier runs", "TERM", *found.orphans)
        )
    listed += [_signal(f"End orphan {one.name}", "TERM", one) for one in found.orphans]
    if len(found.stopped) > 1:
        listed.append(_signal(f"Continue all {len(found.stopped)} stopped processes", "CONT", *found.stopped))
    return [*listed, *(_signal(f"Continue stopped {one.name}", "CONT", one) for one in found.stopped)]


def _signal(title: str, signal: Signal, *processes: Repairable) -> Repair:
    from hangtop.session.probes.repair import signal_probe

    def choose(app: HangtopApp) -> None:
        offer(app, signal_probe(app.session, title, signal, processes), after=partial(_note, app, title))

    detail = f"{processes[0].text()}: {processes[0].process.why}" if len(processes) == 1 else ""
    return Repair(title, detail, choose)


def _note(app: HangtopApp, what: str) -> None:
    app.head.state.changes.append(Change(app.head.now(), "", f"repair: {what}", "repair"))


def _port(app: HangtopApp) -> None:
    from hangtop.session.probes import Probe, ProbeResult, text_lines

    async def look(_: Say) -> ProbeResult:
        from hangtop.session.probes.repair import free_port

        first, *lines = (await free_port(app.session)).lines()
        return ProbeResult("A free port", "ok", first, text_lines(lines))

    offer(app, Probe("A free port", "", "", look))


def _launch(app: HangtopApp) -> None:
    from hangtop.diagnosis.environment.next_run import next_run

    app.answer("Environment and launch lines (c copies them)", plain(next_run(app.session.job()).text()))


ALWAYS = (
    Repair("Propose a free rendezvous port", "asks every node which ports are in use; opens nothing", _port),
    Repair("Environment and launch lines that would have caught this", "by what the job lacks; only text", _launch),
)
"""Offers that change nothing."""
