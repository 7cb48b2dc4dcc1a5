"""The key that mends: it lists what can be repaired now; each repair says what it does and asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hangtop.diagnosis.node_names import folded_names
from hangtop.session.state.changes import Change
from tui.handlers.confirming import confirmed
from tui.intent import Intent
from tui.looks.format import plural
from tui.looks.text import harmless
from tui.looks.theme import Tone
from tui.widgets.lines import Piece

if TYPE_CHECKING:
    from hangtop.diagnosis.finding import Verdict
    from hangtop.session.asking.repairs import Looked, Order, Repairable
    from tui.dialogs.choosing import Choice
    from tui.host import Host


ALWAYS = 2
"""Offers at the end of the list that change nothing."""


class Offer(NamedTuple):
    """An entry of the list, and what choosing it does."""

    choice: Choice
    take: Callable[[Host], None]


def open_repairs(app: Host) -> None:
    """Look at all nodes in the background, then list what can be mended."""
    app.say("looking for orphans and stopped ranks …")
    app.run_worker(_open(app), name="repairs", exit_on_error=False, exclusive=True, group="repairs")


async def _open(app: Host) -> None:
    from hangtop.session.asking.repairs import look
    from tui.dialogs.choosing import ChoiceDialog

    looked = await look(app.session)
    listed = offers(looked)
    listed[-ALWAYS:-ALWAYS] = drains(app.session.verdict)
    silent: dict[str, list[str]] = {}
    for node, why in looked.unknown.items():
        silent.setdefault(why.removeprefix(f"{node}: "), []).append(node)
    notes = [f"not known of {folded_names(nodes)}: {why}" for why, nodes in silent.items()]

    def take(place: int | None) -> None:
        if place is not None:
            listed[place].take(app)

    app.push_screen(ChoiceDialog("What can be mended now", [offer.choice for offer in listed], notes), take)


def offers(looked: Looked) -> list[Offer]:
    """What the nodes showed as a list of repairs, and the two that are always there."""
    from tui.dialogs.choosing import Choice

    sure = tuple(one for one in looked.orphans if one.process.sure)
    found: list[Offer] = []
    if len(sure) > 1:
        found.append(_signal(f"End all {plural(len(sure), 'certain orphan')} of earlier runs", "TERM", sure))
    found += [
        _signal(f"End orphan {one.name}{'' if one.process.sure else ' (not certain)'}", "TERM", (one,))
        for one in looked.orphans
    ]
    if len(looked.stopped) > 1:
        found.append(_signal(f"Continue all {plural(len(looked.stopped), 'stopped process')}", "CONT", looked.stopped))
    found += [_signal(f"Continue stopped {one.name}", "CONT", (one,)) for one in looked.stopped]
    port = Choice("Propose a free rendezvous port", "asks every node which ports are in use; opens nothing")
    lines = Choice("Environment and launch lines that would have caught this", "by what the job lacks; only text")
    return [*found, Offer(port, _propose_port), Offer(lines, _show_launch)]


def drains(verdict: Verdict | None) -> list[Offer]:
    """The commands of the verdict that take a node at fault out."""
    from hangtop.session.asking.draining import proposed
    from tui.dialogs.choosing import Choice

    def offer(command: str, why: str) -> Offer:
        title = f"Take out: {command}"

        def take(app: Host) -> None:
            brief = "by the scheduler, from this machine; what runs there goes on"
            confirmed(app, "Take a node out of the pool", Intent(brief, command), why, lambda: _drain(app, command))

        return Offer(Choice(title, why, Tone.WARN), take)

    return [offer(command, why) for command, why in proposed(verdict)]


async def _drain(app: Host, command: str) -> None:
    from hangtop.session.asking.draining import carry_out
    from hangtop.session.asking.repairs import RepairRefused

    try:
        done = await carry_out(app.session, command)
    except RepairRefused as refused:
        app.say(str(refused), "warning")
        return
    app.head.state.changes.append(Change(app.head.now(), "", f"repair: {command}", "repair"))
    line = [(harmless(f"{command}: {done.said}"), Tone.OK if done.good else Tone.BAD)]
    _text(app, "Take a node out of the pool", [line])


def _signal(title: str, signal: str, processes: tuple[Repairable, ...]) -> Offer:
    from hangtop.session.asking.repairs import Order
    from tui.dialogs.choosing import Choice

    detail = "\n".join(f"{one.told()}: {one.process.why}" for one in processes) if len(processes) == 1 else ""
    order = Order("CONT" if signal == "CONT" else "TERM", processes)

    def take(app: Host) -> None:
        told = "\n".join(one.told() for one in processes)
        confirmed(app, title, Intent(_brief(order), order.command()), told, lambda: _carry_out(app, title, order))

    return Offer(Choice(title, detail, Tone.WARN), take)


def _brief(order: Order) -> str:
    """``1 process on 1 node, SIGTERM, after 5 s SIGKILL to what is left``."""
    where = f"{plural(len(order.processes), 'process').replace('processs', 'processes')} on "
    where += plural(len(order.nodes()), "node")
    after = f"SIGTERM, after {order.grace:g} s SIGKILL to what is left" if order.signal == "TERM" else "SIGCONT"
    return f"{where}, {after}"


async def _carry_out(app: Host, title: str, order: Order) -> None:
    from hangtop.session.asking.repairs import RepairRefused, carry_out

    try:
        results = await carry_out(app.session, order)
    except RepairRefused as refused:
        app.say(str(refused), "warning")
        return
    app.head.state.changes.append(Change(app.head.now(), "", f"repair: {title}", "repair"))
    lines: list[list[Piece]] = [
        [
            (f"{one.repairable.name:<24} ", Tone.STRONG),
            (harmless(one.signalled.text), Tone.OK if one.good else Tone.BAD),
        ]
        for one in results
    ]
    _text(app, title, lines)


def _propose_port(app: Host) -> None:
    app.run_worker(_ask_ports(app), name="port", exit_on_error=False)


async def _ask_ports(app: Host) -> None:
    from collectors.probes.repair.free import FIRST
    from hangtop.session.asking.repairs import free_port, port_text

    found, silent = await free_port(app.session, FIRST)
    _plain(app, "A free port", port_text(found, silent))


def _show_launch(app: Host) -> None:
    from hangtop.diagnosis.environment.catching import catching

    _plain(app, "Environment and launch lines (c copies them)", catching(app.session.job()).text())


def _plain(app: Host, title: str, lines: Sequence[str]) -> None:
    _text(app, title, [[(harmless(line), Tone.TEXT)] for line in lines])


def _text(app: Host, title: str, content: list[list[Piece]]) -> None:
    app.answer(title, content)
