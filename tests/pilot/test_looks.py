"""What is stale looks stale, what is unknown is not zero, colour is never needed, and a recording is no live job."""

from __future__ import annotations

import re

import pytest

from tests.support.made import gpu_row
from tests.support.piloted import Screen, screen
from tests.support.screens import Paper, PaperSession, hung
from tui.app import ScreenOptions


def style_at(shown: Screen, word: str) -> object:
    """Style of a word in a panel."""
    for strip in shown.app.screen._compositor.render_strips()[3:]:
        for segment in strip:
            if word in segment.text.split():
                return segment.style
    raise AssertionError(f"{word} is not on the screen")


@pytest.mark.parametrize("width", [40, 120])
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


async def test_without_colour_nothing_has_a_colour_and_everything_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    session = Paper(slow=11).session()
    session.verdict = hung()
    async with screen(session, ScreenOptions()) as shown:
        for number in range(1, 8):
            await shown.press(str(number))
            for strip in shown.app.screen._compositor.render_strips():
                for _, style, _ in strip:
                    assert style is None or all(
                        colour is None or colour.is_default for colour in (style.color, style.bgcolor)
                    )
        await shown.press("1")
        assert re.search(r"[!▸]11 +A ", shown.text())


async def test_the_heat_map_shows_another_figure_and_errors_as_what_they_are() -> None:
    from collectors.samples.gpus import GpuFault

    session = Paper(nodes=4).session()
    session.samples(
        "node1", [GpuFault(0, "", "GPU is lost"), gpu_row(1, utilization=None, odd={"utilization": "ERR!"})]
    )
    session.samples("node1", [gpu_row(2, utilization=None)])
    async with screen(session, size=(100, 30)) as shown:
        first = next(line for line in shown.lines() if "node1 " in line)
        told = "node1 ▸ 0 ERR 1 ERR 2 –"
        assert " ".join(first.split()[1:9]) == told, "lost, refused, and unknown; the cursor is at the first"
        await shown.press("v", "v")
        assert "GPU power " in shown.text()


# --- recordings --------------------------------------------------------------------------------------------------


class Recorded(PaperSession):
    """A session whose nodes cannot be asked, as a recording's."""

    can_act = False


def recorded() -> PaperSession:
    paper = Paper(slow=11, label="REPLAY job.hangtop", read_only=True)
    live = paper.session()
    session = Recorded(live.options, live.clock)
    for index in range(paper.nodes):
        paper.feed(session, index, 0)
    session.verdict = hung()
    return session


async def test_in_a_recording_no_key_asks_a_node_and_the_reason_is_the_true_one() -> None:
    session = recorded()
    async with screen(session) as shown:
        await shown.press("2")
        assert "read-only" not in shown.lines()[0]
        assert shown.lines()[0].rstrip().endswith("REPLAY job.hangtop")
        footer = shown.lines()[-1]
        assert "Details" in footer
        assert "Dump" not in footer
        for key in ("d", "D", "r", "K"):
            await shown.press(key)
            assert "this is a recording; no node can be asked" in shown.notices()[-1], key
            assert "--read-only" not in shown.notices()[-1]
        assert session.dumped == []


async def test_a_recording_opens_on_its_findings_and_says_where_nothing_was_known() -> None:
    async with screen(recorded()) as shown:
        assert "[Findings" in shown.lines()[1]
        for key in ("8", "9"):
            await shown.press(key)
            assert "no data at this moment" in shown.text()
            assert "r asks for" not in shown.text()
