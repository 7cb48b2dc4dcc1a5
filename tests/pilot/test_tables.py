"""Tables: columns are shown whole and explained, what orders the rows is seen, totals are those of the filter."""

from __future__ import annotations

import re

import pytest

from collectors.samples.stream import SourceState
from tests.support.made import hello, pulse
from tests.support.piloted import Screen, screen
from tests.support.screens import NOW, PID, Paper, hung
from tui.panels.table_panel import TablePanel
from tui.widgets.table import Table


def table_of(shown: Screen) -> Table[object]:
    panel = shown.app.panel
    assert isinstance(panel, TablePanel)
    return panel.table


def heads(shown: Screen) -> list[str]:
    """Titles of the columns in view."""
    table = table_of(shown)
    return [column.title for column, _ in table.view.layout(table.room, table.sort_key).shown]


async def test_a_column_without_a_value_is_left_out_until_it_has_one() -> None:
    paper = Paper(nodes=2, gpus=0)
    session = paper.session()
    async with screen(session, size=(160, 30)) as shown:
        await shown.press("2")
        assert not {"kernel wait", "gpu", "util", "mem", "log quiet"} & {*heads(shown)}
        assert {"state", "cpu %", "rss"} <= {*heads(shown)}
        await shown.press("slash", *"gpu=3", "enter")
        assert "no row matches" in shown.text()
        await shown.press("escape")
        session.samples("node2", [pulse(PID + 2, state="S", wchan="do_wait", cpu_user=9.0)])
        await shown.draw()
        assert "kernel wait" in heads(shown)
        session.samples("node2", [pulse(PID + 2, state="R", wchan="0", cpu_user=9.0)])
        await shown.draw()
        assert "kernel wait" in heads(shown), "it does not come and go"


@pytest.mark.parametrize(("key", "here"), [("2", (83, "node11", 41_083)), ("4", ("node11", "mlx5_0/1"))])
async def test_the_cursor_stands_on_whom_the_verdict_blames_until_it_is_moved(key: str, here: object) -> None:
    session = Paper(nodes=16, slow=83).session(ticks=2)
    session.verdict = hung(83, "node11")
    async with screen(session, size=(80, 24)) as shown:
        await shown.press(key)
        assert shown.app.panel.here() == here
        table = table_of(shown)
        assert table.top < table.cursor < table.top + table.size.height - 1, "with rows around it"
        await shown.press("up")
        await shown.draw()
        above = shown.app.panel.here()
        assert above != here
        await shown.press("7", key)
        assert shown.app.panel.here() == above, "nobody is torn away from where he went"
        session.verdict = hung(3, "node1")
        await shown.draw()
        assert shown.app.panel.here() == above
        await shown.press("7", key)
        assert table.cursor == {"2": 3, "4": 0}[key], "but a new verdict is opened at its culprit"


async def test_the_panel_of_nodes_says_which_see_another_machine_than_the_real_one() -> None:
    session = Paper(nodes=2).session()
    session.state.nodes["node2"].hello = hello(narrowed=["HANGTOP_ONLY"])
    session.samples("node2", [SourceState("ranks", "ok", "", NOW)])
    async with screen(session, size=(160, 30)) as shown:
        await shown.press("6")
        await shown.draw()
        assert shown.text().count("· narrowed") == 1
        await shown.press("down")
        assert "HANGTOP_ONLY in the environment of the node" in shown.text()


async def test_the_panel_of_nodes_says_what_hangtop_itself_costs_here() -> None:
    async with screen(Paper(nodes=2).session(), size=(120, 30)) as shown:
        await shown.press("6")
        await shown.draw()
        told = re.search(r"hangtop here (\d+)% of a core, ([\d.]+)M", shown.text())
        assert told is not None
        assert float(told[2]) > 10
