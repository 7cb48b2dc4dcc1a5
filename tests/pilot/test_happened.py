"""What happened, on the overview."""

from __future__ import annotations

import pytest

from hangtop.session.state.changes import Change
from tests.support.past import HANG, LOST, SECONDS, settled, watched
from tests.support.piloted import Screen, screen
from tests.support.screens import NOW, Paper, hung


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
async def test_a_flood_pushes_neither_the_verdict_nor_a_lost_node_out_of_what_happened(size: tuple[int, int]) -> None:
    session = Paper(slow=11).session()
    session.publish(hung())
    session.state.changes.append(Change(NOW - 9, "node3", "lost: the link was cut", "lost"))
    for number in range(6000):
        session.state.changes.append(Change(NOW + number, "node1", f"rank {number % 8} came {number} times", "started"))
    async with screen(session, size=size) as shown:
        told = shown.text().partition("what happened")[2]
        assert "■ hang rank 11 on node2" in told
        assert "✖ node3 lost: the link was cut" in told
        assert "rank 7 came 5999 times" in told
        assert "the last of each kind" in told.partition("\n")[0]


SIZES = [(80, 24), (120, 36), (200, 50)]


def told(shown: Screen) -> list[str]:
    """Lines of what happened that are on view, without what stands beside them."""
    region = shown.app.screen.query_one("#changes").region
    lines = shown.lines()[region.y + 1 : region.bottom]
    return [line[region.x : region.right].strip() for line in lines if line[region.x : region.right].strip()]


@pytest.mark.parametrize("size", SIZES)
async def test_enter_on_what_happened_goes_to_that_moment_and_escape_back(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    async with watched(monkeypatch, size) as shown:
        timeline = shown.app.scene.timeline
        await shown.press("H")
        assert told(shown)[0].startswith("▸02:48:20 ✖ node2 lost")
        await shown.press("down")
        assert any(line.startswith("▸02:48:00 ■ hang rank 1 on node1") for line in told(shown))
        await shown.press("down", "enter")
        await settled(shown)
        assert timeline.at == NOW + 5
        assert "● HEALTHY  all is well" in shown.lines()[0]
        assert "Overview › 02:47:05 healthy   Esc goes back" in shown.text()
        # what came later is still listed: one can go on to it
        await shown.press("home", "enter")
        await settled(shown)
        assert timeline.at == NOW + LOST
        assert "Overview › 02:48:20 lost   Esc goes back" in shown.text()
        await shown.press("6")
        assert "✖ lost" in shown.text()
        await shown.press("1")
        assert "Esc goes back" not in shown.text()
        await shown.press("H", "down", "enter")
        await settled(shown)
        assert timeline.at == NOW + HANG
        await shown.press("escape")
        await settled(shown)
        assert timeline.at == NOW + LOST  # from where it was gone to
        assert told(shown)[0].startswith("02:48:20") or any(line.startswith("▸02:48:00") for line in told(shown))
        await shown.press("escape")
        assert not any(line.startswith("▸") for line in told(shown))


@pytest.mark.parametrize("key", ["space", "0", "comma"])
async def test_another_way_in_time_leaves_no_crumb_of_a_moment_that_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    async with watched(monkeypatch) as shown:
        await shown.press("H", "down", "enter")
        await settled(shown)
        assert "Overview › 02:48:00 hang" in shown.text()
        await shown.press(key)
        await settled(shown)
        assert shown.app.scene.timeline.at == (NOW + HANG - 2 if key == "comma" else None)
        assert "Esc goes back" not in shown.text()


async def test_a_moment_that_cannot_be_shown_is_said_and_leaves_no_way() -> None:
    session = Paper(nodes=1).session()
    session.publish(hung(1, "node1"))
    async with screen(session) as shown:
        session.recordings.forget_past("of a job that is too large no past is kept")
        await shown.press("H", "enter")
        assert "only now can be shown: of a job that is too large no past is kept" in shown.notices()[-1]
        assert shown.app.scene.timeline.at is None
        assert "Esc goes back" not in shown.text()


async def test_the_cursor_stays_on_its_line_while_more_happens_above_and_goes_through_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with watched(monkeypatch, (80, 24)) as shown:
        changes = shown.session.state.changes
        for number in range(40):
            changes.append(Change(NOW + SECONDS + 3 * number, f"node{number}", f"port {number} went down", "port"))
        await shown.press("H", *["down"] * 12)
        assert [line for line in told(shown) if line.startswith("▸")] == ["▸02:50:01 ▲ node27 port 27 went down"]
        changes.append(Change(NOW + 400, "node1", "port 99 went down", "port"))
        await shown.draw()
        assert [line for line in told(shown) if line.startswith("▸")] == ["▸02:50:01 ▲ node27 port 27 went down"]
        await shown.press("home")
        assert told(shown)[0] == "▸02:53:40 ▲ node1 port 99 went down"
        await shown.press("end")
        assert "started" in told(shown)[-1]
        await shown.press("c")
        assert "port 99 went down" in shown.app.panel.text()
