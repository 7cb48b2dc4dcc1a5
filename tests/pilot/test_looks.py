"""What is stale looks stale, what is unknown is not zero, and colour is never needed."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from textual.app import App

from collectors.fleet.sink import LinkChange
from collectors.samples.logs import LogFile, LogLines
from collectors.samples.ranks import CpuWait
from collectors.samples.stream import Tick
from hangtop.diagnosis.finding import Evidence, Finding, Verdict
from tests.support.made import gpu_row, pulse
from tests.support.piloted import Screen, screen
from tests.support.screens import NOW, PID, Paper, hung, kernel_line, say
from tui.app import ScreenOptions
from tui.looks.theme import THEMES
from tui.texts.report import Report


def style_at(shown: Screen, word: str) -> object:
    """Style of a word in a panel."""
    for strip in shown.app.screen._compositor.render_strips()[3:]:
        for segment in strip:
            if word in segment.text.split():
                return segment.style
    raise AssertionError(f"{word} is not on the screen")


async def test_until_there_is_a_verdict_line_1_says_how_far_the_picture_is() -> None:
    session = Paper(label="DEMO · simulated devices").session()
    session.link(LinkChange("node9", "connecting", "", NOW - 12))
    async with screen(session) as shown:
        assert "4/5 nodes up   32/32 ranks seen   waiting 12s for node9" in shown.lines()[0]
        assert shown.lines()[0].rstrip().endswith("DEMO · simulated devices")


@pytest.mark.parametrize("width", [40, 60, 80, 120, 250])
async def test_the_sentence_of_the_verdict_is_line_1_and_the_label_gives_way_to_it(width: int) -> None:
    session = Paper(slow=11, label="DEMO · simulated devices").session()
    session.verdict = hung()
    async with screen(session, size=(width, 24)) as shown:
        line = shown.lines()[0]
        assert line.startswith(" ■ HUNG")
        assert line.rstrip().endswith("DEMO · simulated devices" if width >= 120 else "DEMO")
        assert "rank 11 on node2"[: width - 20] in line
        assert len(line) == width


async def test_a_node_that_falls_silent_looks_stale_and_says_how_old_it_is() -> None:
    paper = Paper(nodes=2)
    session = paper.session()
    async with screen(session) as shown:
        await shown.press("2", "down")
        fresh = style_at(shown, "node2")
        paper.clock.now += 30
        paper.feed(session, 0, 21)
        await shown.draw()
        assert "oldest data 30s (node2)" in shown.lines()[0]
        stale = style_at(shown, "node2")
        assert stale != fresh
        assert getattr(stale, "italic", False)
        assert style_at(shown, "node1") == fresh
        await shown.press("6")
        assert "30s" in shown.lines()[5]


async def test_ranks_of_a_silent_node_are_not_said_to_be_alive() -> None:
    paper = Paper(nodes=2, gpus=4)
    session = paper.session()
    async with screen(session) as shown:
        await shown.press("2")
        assert " 8 of 8 ranks alive   8 on CPU" in shown.text()
        paper.clock.now += 27
        paper.feed(session, 0, 21)
        await shown.draw()
        assert " 4 of 8 ranks alive   ◌ 4 on nodes that do not respond   4 on CPU" in shown.text()
        assert "ended" not in shown.lines()[2]
        await shown.press("1")
        assert "4 of 4 ranks on CPU now" in shown.lines()[2]


async def test_a_rank_that_is_ready_and_gets_no_cpu_is_not_said_to_be_on_one() -> None:
    session = Paper(nodes=2, gpus=4).session()
    waits = CpuWait(PID, 85, "0-3", 0)
    session.samples("node1", [waits, waits._replace(pid=PID + 1, waited=30)], 0)
    async with screen(session) as shown:
        assert "7 of 8 ranks on CPU now" in shown.lines()[2]
        await shown.press("2")
        assert " 8 of 8 ranks alive   7 on CPU   1 no CPU" in shown.text()
        assert sum("R no CPU" in line for line in shown.lines()) == 1
        session.samples("node1", [waits._replace(waited=10)], 0)
        await shown.draw()
        assert " 8 of 8 ranks alive   8 on CPU" in shown.text()


async def test_a_lost_node_says_why_and_when_it_is_tried_again() -> None:
    session = Paper(nodes=2).session()
    session.link(LinkChange("node2", "lost", "the link was cut: no answer for 8 s", NOW, NOW + 4))
    async with screen(session, size=(160, 30)) as shown:
        assert "✖ node2" in shown.text()
        await shown.press("6")
        line = next(line for line in shown.lines() if "node2" in line)
        assert "✖ lost" in line
        assert "the link was cut: no answer for 8 s" in line
        assert " 4s " in line


async def test_what_is_unknown_is_a_dash() -> None:
    session = Paper(nodes=1, gpus=0).session(ticks=1)
    async with screen(session) as shown:
        await shown.press("2")
        shown.app.panel.go_column("gpu.util")
        await shown.draw()
        row = next(line for line in shown.lines() if "node1" in line)
        assert "–" in row
        assert " 0%" not in row
        await shown.press("3")
        assert "no GPU" in shown.text()


@pytest.mark.parametrize("theme", [theme.name for theme in THEMES])
async def test_every_theme_draws_every_panel(theme: str) -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    async with screen(session, ScreenOptions(theme=theme), size=(100, 30)) as shown:
        for number in range(1, 9):
            await shown.pilot.press(str(number))
        assert "HUNG" in shown.lines()[0]


@pytest.mark.parametrize("by_environment", [True, False])
async def test_without_colour_nothing_has_a_colour_and_everything_can_be_read(
    by_environment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_environment:
        monkeypatch.setenv("NO_COLOR", "1")
    session = Paper(slow=11).session()
    session.verdict = hung()
    async with screen(session, ScreenOptions(no_color=not by_environment)) as shown:
        for number in range(1, 8):
            await shown.press(str(number))
            for strip in shown.app.screen._compositor.render_strips():
                for _, style, _ in strip:
                    assert style is None or all(
                        colour is None or colour.is_default for colour in (style.color, style.bgcolor)
                    )
        await shown.press("1")
        assert re.search(r"[!▸]11 +A ", shown.text())


async def test_ascii_is_ascii() -> None:
    session = Paper(slow=11, label="DEMO · simulated devices").session()
    session.verdict = hung()
    async with screen(session, ScreenOptions(theme="hangtop", ascii=True)) as shown:
        for key in "12345678?":
            await shown.press("question_mark" if key == "?" else key)
            assert all(line.isascii() for line in shown.lines()), key


async def test_a_figure_that_no_gpu_tells_is_not_known_and_has_no_column() -> None:
    """GPUs in MIG mode have no utilisation."""
    paper = Paper(nodes=2, gpus=4)
    session = paper.session(ticks=1)
    paper.clock.now += 1
    for index in range(paper.nodes):
        rows = [gpu_row(at, utilization=None, power=310.0) for at in range(paper.gpus)]
        samples: list[NamedTuple] = [
            *rows,
            *(pulse(PID + index * 4 + at) for at in range(4)),
            Tick(1, paper.clock.now, 0.004, 0.1, 2**20),
        ]
        session.samples(paper.name(index), samples, 99)
    async with screen(session) as shown:
        assert " GPU utilisation %  not known   " in shown.text()
        await shown.press("3")
        assert "util " not in shown.lines()[3]
        assert "power" in shown.lines()[3]


async def test_a_new_hang_rings_once_and_notifies(monkeypatch: pytest.MonkeyPatch) -> None:
    rings: list[int] = []
    monkeypatch.setattr(App, "bell", lambda _app: rings.append(1))
    session = Paper(slow=11).session()
    async with screen(session) as shown:
        written = io.StringIO()
        monkeypatch.setattr(shown.app._driver, "write", written.write)
        await shown.draw()
        assert not rings
        session.verdict = hung()
        await shown.press("question_mark")
        await shown.draw()
        await shown.draw()
        assert len(rings) == 1
        assert "\x1b]9;hangtop, hung: rank 11 on node2" in written.getvalue()
        session.verdict = Verdict("healthy", "all is well")
        await shown.draw()
        session.verdict = hung()
        await shown.draw()
        assert len(rings) == 2


async def test_only_changed_lines_are_sent() -> None:
    paper = Paper(nodes=2, slow=3)
    session = paper.session()
    async with screen(session) as shown:
        await shown.press("6")
        table = shown.app.panel.table  # type: ignore[attr-defined]
        dirty: list[object] = []
        table.refresh = lambda *regions, **_: dirty.extend(regions or ["all"])
        await shown.draw()
        assert dirty == []
        paper.clock.now += 1
        paper.feed(session, 1, 21)
        await shown.draw()
        assert "all" not in dirty
        assert dirty


async def test_a_hidden_panel_is_not_drawn_and_the_one_behind_a_dialog_goes_on() -> None:
    async with screen() as shown:
        await shown.press("2", "6")
        drawn: list[str] = []
        for name, panel in shown.app.stage.panels.items():
            panel.draw = lambda name=name: drawn.append(name)  # type: ignore[method-assign, misc]
        await shown.draw()
        assert set(drawn) == {"nodes"}
        await shown.press("question_mark")
        drawn.clear()
        await shown.draw()
        assert set(drawn) == {"nodes"}


async def test_the_log_follows_stops_and_counts_what_is_new() -> None:
    session = Paper().session()
    say(session, "node1", 0, NOW - 5, *(f"line {number}" for number in range(100)))
    async with screen(session) as shown:
        await shown.press("5")
        assert "● following" in shown.text()
        assert "line 99" in shown.lines()[-2]
        await shown.press("up", "up")
        assert "⏸ paused" in shown.text()
        say(session, "node1", 0, NOW - 1, "late one", "and two")
        await shown.draw()
        assert "2 new" in shown.text()
        assert "late one" not in shown.text()
        await shown.press("end")
        assert "and two" in shown.lines()[-2]
        assert "● following" in shown.text()


async def test_a_paused_log_stands_still_while_older_lines_come_in_between() -> None:
    session = Paper().session()
    say(session, "node1", 0, NOW - 5, *(f"line {number}" for number in range(100)))
    async with screen(session) as shown:
        await shown.press("5", "pageup")
        before = [line[:-1] for line in shown.lines()[3:-2]]
        say(session, "node2", 8, NOW - 9, "an older line")
        await shown.draw()
        assert [line[:-1] for line in shown.lines()[3:-2]] == before


async def test_log_lines_by_severity_alarm_and_time() -> None:
    session = Paper().session()
    say(session, "node1", 0, NOW - 50, "fine", "ERROR one")
    say(session, "node1", 0, NOW - 20, "WARNING two", *["fine"] * 60)
    kernel_line(session, "node2", NOW - 30, "NVRM: Xid (PCI:0000:03:00): 79")
    async with screen(session) as shown:
        view = shown.app.panel
        await shown.press("5", "N")
        view = shown.app.panel.view  # type: ignore[attr-defined]
        assert view.current.text == "WARNING two"
        await shown.press("N", "N", "N")
        assert view.current.text == "ERROR one"
        assert "before this line" in shown.notices()[-1]
        await shown.press("w", "w")
        assert [line.text for line in view.book.shown] == ["ERROR one", "NVRM: Xid (PCI:0000:03:00): 79"]
        await shown.press("w", "at", *"02:46:30", "enter")
        assert view.current.text == "NVRM: Xid (PCI:0000:03:00): 79"
        await shown.press("at", *"25s", "enter")
        assert view.current.text == "WARNING two"
        await shown.press("at", *"noon", "enter")
        assert "is no time" in shown.notices()[-1]


async def test_what_a_flood_hides_is_said_where_logs_and_nodes_are_shown() -> None:
    session = Paper(nodes=1).session()
    flooded = LogFile("/logs/rank0.err", "8:0", 41_000, 0, "stderr", 9 << 30, "", "", left_out=3 << 30)
    session.samples("node1", [flooded], 100)
    async with screen(session, size=(160, 30)) as shown:
        await shown.press("5")
        assert "▲ 3.0G not even read there" in shown.text()
        await shown.press("6")
        assert "▲ 3.0G of logs not read: floods" in shown.text()
        await shown.press("i")
        assert "/logs/rank0.err 9.0G, 3.0G of a flood not read" in shown.text()


async def test_the_heat_map_shows_another_figure_and_errors_as_what_they_are() -> None:
    from collectors.samples.gpus import GpuFault
    from tests.support.made import gpu_row

    session = Paper(nodes=20).session()
    session.samples(
        "node1", [GpuFault(0, "", "GPU is lost"), gpu_row(1, utilization=None, odd={"utilization": "ERR!"})], 1
    )
    session.samples("node1", [gpu_row(2, utilization=None)], 1)
    async with screen(session, size=(100, 30)) as shown:
        first = next(line for line in shown.lines() if "node1 " in line)
        assert first.startswith("▸ node1  ! ! – 9 9 9 9 9 ")  # two cells a GPU: 20 nodes are too many for more
        await shown.press("plus")
        first = next(line for line in shown.lines() if "node1 " in line)
        assert "0 ERR" in first
        assert "1 ERR" in first
        assert "2   –" in first
        await shown.press("v", "v")
        assert "GPU power W" in shown.text()
        await shown.press("V")
        assert "GPU memory %" in shown.text()


async def test_a_small_job_shows_all_figures_and_a_large_one_the_chosen() -> None:
    async with screen(Paper(nodes=2).session()) as shown:
        assert "power" in shown.text()
        assert "clock" in shown.text()
    async with screen(Paper(nodes=64).session(ticks=2), size=(250, 70)) as shown:
        assert "clock" not in shown.text()
        assert " 9 9 9 9 9 9 9 9" in shown.text()
        await shown.press("plus")
        assert "clock" not in shown.text()
        assert "511" in shown.text()


async def test_the_session_is_started_after_the_first_frame_and_closed_at_the_end() -> None:
    session = Paper().session()
    async with screen(session) as shown:
        await shown.pilot.pause(0.2)
        assert session.started
    assert session.closed


async def test_words_of_the_program_are_not_shown_as_words_for_people() -> None:
    from collectors.samples.gpus import GpuFault

    paper = Paper(slow=11)
    session = paper.session()
    session.samples("node1", [GpuFault(0, "", "GPU is lost")], 1)
    for node, dump in [*paper.stacks(NOW - 6), *paper.stacks(NOW - 4)]:
        session.samples(node, [dump], 0)
    async with screen(session) as shown:
        assert "31 of 32 ranks on CPU now" in shown.lines()[2]
        assert "1 GPU without figures" in shown.lines()[2]
        await shown.press("3")
        assert "1 GPU without figures" in shown.lines()[2]
        await shown.press("8")
        assert "all 2 looks, s: the next" in shown.lines()[2]
        await shown.press("enter")
        assert "read without pausing it" in shown.text()
        assert "nonblocking" not in shown.text()


async def test_a_line_of_unknown_time_is_said_to_be_from_before() -> None:
    session = Paper(nodes=1).session()
    old = LogLines("/logs/rank0.err", 41_000, 0, "stderr", NOW - 600, ["an old line"], 0, before=True)
    session.samples("node1", [old], 100)
    async with screen(session) as shown:
        await shown.press("5")
        line = next(line for line in shown.lines() if "an old line" in line)
        assert "<02:37:00 " in line
        await shown.press("up", "i")
        assert "before  02:37:00" in shown.text()


async def test_a_job_at_risk_and_how_sure_that_is_in_banner_findings_and_report(tmp_path: Path) -> None:
    proven = Finding(
        "disk_full", "warning", 0.97, "disk of node3 is full", nodes=("node3",), evidence=(Evidence("df", NOW, "98 %"),)
    )
    possible = Finding("clock_skew", "warning", 0.4, "clocks differ", evidence=(Evidence("watch", NOW, "3 s"),))
    session = Paper().session()
    session.verdict = Verdict("at_risk", "disk of node3 is full", (proven, possible))
    async with screen(session) as shown:
        assert shown.lines()[0].startswith(" ▲ AT RISK  disk of node3 is full  proven")
        await shown.press("7")
        assert "▲ 2 warnings" in shown.lines()[2]
        rows = [line for line in shown.lines() if "disk_full " in line or "clock_skew " in line]
        assert [next(word for word in row.split() if word in {"proven", "possible"}) for row in rows[:2]] == [
            "proven", "possible",
        ]  # fmt: skip
        assert "warning, proven" in shown.text()
        report, _ = Report(shown.app.scene).write(tmp_path)
    text = report.read_text()
    assert "AT RISK  disk of node3 is full" in text
    assert "at_risk" not in text.lower()
    assert "took" not in text, "it was there before anybody asked"
    assert "disk_full  (warning, proven)" in text
    assert "clock_skew  (warning, possible)" in text


async def test_nodes_that_nobody_reaches_say_why_as_far_as_there_is_room() -> None:
    session = Paper(nodes=0).session()
    for name in ("node1", "node2"):
        session.link(LinkChange(name, "lost", "nothing listens at 192.0.2.1 port 22: is sshd running there?", NOW))
    async with screen(session, size=(120, 36)) as shown:
        assert " no GPU and no rank is known" in shown.text()
        assert "CPU of the ranks" not in shown.text()
        (line,) = (line for line in shown.lines() if "✖ node1" in line)
        assert "✖ node2" in line
        assert line.count("nothing listens at 192.0.2.1") == 2
