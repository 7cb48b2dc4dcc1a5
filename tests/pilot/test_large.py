"""What is special about jobs of thousands of ranks: large numbers have room, and what rests costs nothing."""

from __future__ import annotations

import time

import pytest

from collectors.samples.logs import LogFile
from hangtop.diagnosis.yielding import give_way
from hangtop.session import aside as resting
from hangtop.session.aside import aside
from tests.support.piloted import screen
from tests.support.screens import Paper, hung, say
from tui.logs.logbook import LogBook
from tui.panels.overview import OverviewPanel


async def test_a_group_of_thousands_of_ranks_has_a_space_behind_their_number() -> None:
    paper = Paper(nodes=130, gpus=8, slow=11)
    session = paper.session(ticks=1)
    session.publish(hung())
    for node, dump in paper.stacks():
        session.stacks(node, [dump])
    async with screen(session, size=(100, 30)) as shown:
        await shown.press("8")
        assert "1,039 ranks 0-10,12-1039" in shown.text()


async def test_a_chart_of_one_line_leaves_out_the_whole_that_would_touch_its_name() -> None:
    session = Paper(nodes=2).session()
    async with screen(session, size=(80, 18)) as shown:
        panel = shown.app.panel
        assert isinstance(panel, OverviewPanel)
        series = session.history.series
        for alive, wanted in ((16, " moving   3/16"), (16384, " moving      3")):
            session.tick()
            series["moving"].add(session.clock.now, 3)
            series["alive"].add(session.clock.now, alive)
            session.clock.now += 1
            await shown.draw()
            assert wanted in shown.text()


async def test_the_files_on_view_are_worked_out_when_one_comes_or_the_filter_is_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Paper(nodes=2).session()
    asked: list[str] = []
    wants = LogBook.wants

    def counted(book: LogBook, node: str, rank: int | None, path: str) -> bool:
        asked.append(path)
        return wants(book, node, rank, path)

    async with screen(session) as shown:
        await shown.press("5")
        monkeypatch.setattr(LogBook, "wants", counted)
        await shown.draw()
        assert not asked
        session.samples("node1", [LogFile("/logs/new.err", "8:99", None, None, "stderr", 1, "", "")], 1)
        await shown.draw()
        assert "/logs/new.err" in asked
        asked.clear()
        await shown.press("slash", *"rank=3", "enter")
        assert asked
        assert session.nodes_told.viewed[-1] == {"/logs/rank3.err"}


async def test_a_verdict_rests_while_the_screen_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with screen(Paper(nodes=2).session()) as shown:
        monkeypatch.setattr(resting, "REST", 3600.0)
        shown.app.tick()
        naps: list[float] = []
        monkeypatch.setattr(resting, "RESTS", 3 * resting.NAP)
        monkeypatch.setattr(time, "sleep", naps.append)
        await aside(give_way)
        assert naps
        monkeypatch.setattr(aside, "_until", 0.0)


async def test_lines_of_many_ranks_at_one_time_are_one_until_z() -> None:
    paper = Paper(nodes=20, gpus=2)
    session = paper.session(ticks=2)
    now = session.clock.now
    for rank in range(40):
        say(session, paper.node_of(rank), rank, now - 3, f"step 12 loss 0.{rank}")
    say(session, paper.node_of(7), 7, now - 2, "WARNING loss is nan")
    async with screen(session, size=(100, 30)) as shown:
        await shown.press("5")
        text = shown.text()
        assert "×40 ranks   step 12 loss 0.0" in text
        assert "41 lines" in text
        assert "39 like others at that time" in text
        assert "loss is nan" in text
        await shown.press("home", "i")
        assert "×40 ranks: ranks 0-39" in shown.text()
        await shown.press("escape")
        assert shown.app.panel.chosen_ranks() == set(range(40))
        await shown.press("z")
        assert "×40" not in shown.text()
        assert "step 12 loss 0.5" in shown.text()
        await shown.press("z")
        assert "×40 ranks" in shown.text()


async def test_on_a_wide_screen_what_a_rank_does_is_told_whole() -> None:
    session = Paper(nodes=2, slow=11).session()
    session.publish(hung())
    async with screen(session, size=(200, 50)) as shown:
        await shown.press("2")
        assert "B waits in all_reduce at step (train.py:207) " in shown.text()
        assert "nfs_wait_bit_k" in shown.text()
        await shown.pilot.resize_terminal(100, 30)
        await shown.draw()
        assert "B waits in all_reduce at" in shown.text()
        assert "nfs_wait_bit" in shown.text()


async def test_the_top_of_a_scale_is_never_less_than_what_is_told_beside_it() -> None:
    session = Paper(nodes=2).session()
    async with screen(session, size=(120, 46)) as shown:
        session.history.series["power"].add(session.clock.now, 5_000.0)
        for power, unit in ((9_700.0, " GPU kW"), (690_000.0, " GPU kW"), (9_900_000.0, " GPU MW")):
            session.clock.now += 1
            session.history.series["power"].add(session.clock.now, power)
            await shown.draw()
            lines = shown.lines()
            at = next(at for at, line in enumerate(lines) if line.startswith(unit))
            assert float(lines[at].split("┤")[0].split()[-1]) >= float(lines[at + 1].split()[1])


async def test_the_card_of_a_node_says_whole_what_was_found_there_where_it_has_room() -> None:
    session = Paper(nodes=64, slow=11).session(ticks=2)
    session.publish(hung())
    found = hung().findings[0]
    async with screen(session, size=(200, 50)) as shown:
        await shown.draw()
        right = [line[138:].strip() for line in shown.lines()]
        at = next(at for at, line in enumerate(right) if line.startswith(found.kind))
        first = next(at for at, line in enumerate(right) if line.startswith("GPU 0"))
        assert " ".join(right[at:first]) == f"{found.kind} {found.summary}"
        assert any(line.startswith("GPU 7") for line in right)
        await shown.pilot.resize_terminal(200, 36)
        await shown.draw()
        assert any("GPU 5" in line for line in shown.lines()), "figures come before what is said elsewhere, too"
