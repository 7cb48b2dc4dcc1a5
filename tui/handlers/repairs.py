"""The key that mends: it lists what can be repaired now; each repair says what it does and asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from hangtop.diagnosis.node_names import folded_names
from hangtop.session.state.changes import Change
from tui.handlers.ask import offer, probe_order
from tui.looks.format import plural
from tui.order import Answer, Order, Say
from tui.texts.answers import plain

if TYPE_CHECKING:
    from collectors.probes.repair.ask import Signal
    from hangtop.diagnosis.finding import Verdict
    from hangtop.session.probes.repair import Looked, Repairable
    from tui.host import Host


class Offer(NamedTuple):
    """An entry of the list, and what choosing it does."""

    title: str
    detail: str
    order: Callable[[Host], Order]


def open_repairs(app: Host) -> None:
    """Look at all nodes in the background, then list what can be mended."""
    app.say("looking for orphans and stopped ranks …")
    app.run_worker(_open(app), name="repairs", exit_on_error=False, exclusive=True, group="repairs")


async def _open(app: Host) -> None:
    from hangtop.session.probes.repair import look
    from tui.dialogs.choosing import Choice, ChoiceDialog

    looked = await look(app.session)
    listed = [*_signals(looked), *_drains(app.session.verdict), *ALWAYS]
    silent: dict[str, list[str]] = {}
    for node, why in looked.unknown.items():
        silent.setdefault(why.removeprefix(f"{node}: "), []).append(node)
    notes = [f"not known of {folded_names(nodes)}: {why}" for why, nodes in silent.items()]

    def take(place: int | None) -> None:
        if place is not None:
            offer(app, listed[place].order(app))

    choices = [Choice(one.title, one.detail) for one in listed]
    app.push_screen(ChoiceDialog("What can be mended now", choices, notes), take)


def _signals(looked: Looked) -> list[Offer]:
    """Processes to end, and to continue; all of a kind first."""
    sure = tuple(one for one in looked.orphans if one.process.sure)
    found: list[Offer] = []
    if len(sure) > 1:
        found.append(_signal(f"End all {plural(len(sure), 'certain orphan')} of earlier runs", "TERM", *sure))
    found += [
        _signal(f"End orphan {one.name}{'' if one.process.sure else ' (not certain)'}", "TERM", one)
        for one in looked.orphans
    ]
    if len(looked.stopped) > 1:
        number = len(looked.stopped)
        found.append(_signal(f"Continue all {number} stopped processes", "CONT", *looked.stopped))
    return [*found, *(_signal(f"Continue stopped {one.name}", "CONT", one) for one in looked.stopped)]


def _signal(title: str, signal: Signal, *processes: Repairable) -> Offer:
    from hangtop.session.probes.repair import signal_probe

    def order(app: Host) -> Order:
        probe = signal_probe(app.session, title, signal, processes)
        return probe_order(probe, after=lambda: _note(app, title))

    detail = f"{processes[0].told()}: {processes[0].process.why}" if len(processes) == 1 else ""
    return Offer(title, detail, order)


def _drains(verdict: Verdict | None) -> list[Offer]:
    """The commands of the verdict that take a node at fault out."""
    from hangtop.session.probes.drain import drain_probe, proposed

    def drain(command: str, why: str) -> Offer:
        def order(app: Host) -> Order:
            return probe_order(drain_probe(app.session, command, why), after=lambda: _note(app, command))

        return Offer(f"Take out: {command}", why, order)

    return [drain(command, why) for command, why in proposed(verdict)]


def _note(app: Host, what: str) -> None:
    app.head.state.changes.append(Change(app.head.now(), "", f"repair: {what}", "repair"))


def _port(app: Host) -> Order:
    async def work(_: Say) -> Answer:
        from collectors.probes.repair.free import FIRST
        from hangtop.session.probes.repair import free_port, port_text

        found, silent = await free_port(app.session, FIRST)
        return Answer("A free port", plain(port_text(found, silent)))

    return Order("A free port", "", "", work)


def _launch(app: Host) -> Order:
    async def work(_: Say) -> Answer:
        from hangtop.diagnosis.environment.next_run import next_run

        return Answer("Environment and launch lines (c copies them)", plain(next_run(app.session.job()).text()))

    return Order("Environment and launch lines", "", "", work, quiet=True)


ALWAYS = (
    Offer("Propose a free rendezvous port", "asks every node which ports are in use; opens nothing", _port),
    Offer("Environment and launch lines that would have caught this", "by what the job lacks; only text", _launch),
)
"""Offers that change nothing."""
