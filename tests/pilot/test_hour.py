"""After an hour's updates the terminal shows on every panel what a fresh drawing of that moment shows."""

from __future__ import annotations

import pytest

from collectors.fleet.sink import LinkChange
from collectors.samples.fabric import PortFacts
from hangtop.diagnosis.finding import Verdict
from tests.pilot.test_collectives_panel import dump
from tests.pilot.test_terminal import OPTIONS, SIZES, attached_screen, unlike
from tests.support.made import gpu_row
from tests.support.piloted import Screen
from tests.support.screens import Paper, PaperSession, hung, kernel_line, say
from tests.support.terminal import JUNK, Terminal, attached
from tui.app import HangtopApp
from tui.widgets.footer import Footer

MINUTES, EACH = 60, 20
"""How long it goes on, and seconds between two looks of a node."""


@pytest.fixture(autouse=True)
def _no_cost_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Footer, "measure", lambda self: None)


def pass_a_minute(paper: Paper, session: PaperSession, minute: int) -> None:
    """All that can happen: nodes go and come, a job hangs and goes on, ports and GPUs fail, logs grow, dumps come."""
    for look in range(60 // EACH):
        paper.clock.now += EACH
        for index in range(paper.nodes):
            if (minute + index) % 11:  # at times one says nothing for a while
                paper.feed(session, index, 20 + minute * 3 + look)
        session.tick()
    now, name = paper.clock.now, paper.name(minute % paper.nodes)
    say(
        session,
        name,
        minute % paper.nodes * paper.each,
        now - 3,
        f"step {minute} loss 0.{minute}",
        "WARNING it is slow",
    )
    rows = [gpu_row(at, utilization=minute, power=80.0 + minute) for at in range(paper.gpus)]
    session.samples(name, [*rows], 99)
    judge(paper, session, minute)
    break_something(paper, session, minute)


def judge(paper: Paper, session: PaperSession, minute: int) -> None:
    """Verdicts come and go; at the end the job hangs."""
    if minute % 10 == 5:
        session.publish(hung(11, "node2"))
        for node, one in paper.stacks(at=paper.clock.now - 4):
            session.stacks(node, [one])
    if minute % 10 == 8 and minute < MINUTES - 10:
        session.publish(Verdict("healthy", "all is well"))


def break_something(paper: Paper, session: PaperSession, minute: int) -> None:
    """Nodes are lost and come back; a GPU and a port fail; ranks dump."""
    now = paper.clock.now
    if minute % 7 == 3:
        why = "the link was cut: no answer for 8 s"
        session.link(LinkChange(paper.name(minute % paper.nodes), "lost", why, now))
    if minute % 7 == 4:
        for index in range(paper.nodes):
            session.link(LinkChange(paper.name(index), "live", "", now))
    if minute == 31:
        kernel_line(session, "node1", now - 9, "NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus.")
    if minute == 33:
        port = PortFacts("mlx5_0", 1, "InfiniBand", "DOWN", "Disabled", 400.0, "400 Gb/sec", 17, 1, "ib0", "28.3", "MT")
        session.samples("node3", [port], 99)
    if minute == 40:
        for rank in range(8):
            session.state.recorders[rank] = dump(rank, 29 if rank == 5 else 30, waits=rank != 5)._replace(at=now)


async def settled(shown: Screen, terminal: Terminal) -> list[str]:
    """What the terminal shows once a further tick changes nothing: the machine may have other things to do."""
    lines: list[str] = []
    for _ in range(8):
        await shown.draw()
        if terminal.lines() == lines:
            break
        lines = terminal.lines()
    return terminal.lines()


async def fresh(session: PaperSession, size: tuple[int, int]) -> dict[str, list[str]]:
    """Every panel of this moment, drawn by an application that has drawn nothing before."""
    found = {}
    for panel in "123456789":
        app = HangtopApp(session, OPTIONS)
        terminal = attached(app)
        async with app.run_test(size=size) as pilot:
            shown = Screen(app, session, pilot)
            await shown.press(panel)
            app.redraw_all()
            found[panel] = await settled(shown, terminal)
    return found


@pytest.mark.parametrize("size", [SIZES[0], *(pytest.param(size, marks=pytest.mark.slow) for size in SIZES[1:])])
async def test_after_an_hour_every_panel_shows_what_a_fresh_drawing_shows(size: tuple[int, int]) -> None:
    paper = Paper(nodes=4, slow=11)
    session = paper.session()
    async with attached_screen(session, size) as (shown, terminal):
        for minute in range(MINUTES):
            pass_a_minute(paper, session, minute)
            if minute % 2:  # each drawing costs a second on a slow machine
                await shown.press_quickly(str(1 + minute // 2 % 9))
                await shown.draw()
        lived = {}
        for panel in "123456789":
            await shown.press(panel)
            lived[panel] = await settled(shown, terminal)
        assert not terminal.outside
    again = await fresh(session, size)
    for panel, lines in lived.items():
        assert not unlike(lines, again[panel]), panel
        assert not any(JUNK in line for line in lines), panel
