"""``C`` on a process group and on ranks: who is asked, what is shown before, and what reaches the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.probes.inside import ask
from collectors.probes.inside.remote.question import Asked
from collectors.samples.collectives import RecorderDump
from collectors.samples.inside import InsideFacts, InsidePulse
from collectors.samples.logs import StepCount
from collectors.samples.page import OF_GROUP, group_number
from collectors.samples.stream import Tick
from tests.pilot.test_collectives_panel import entry
from tests.support.piloted import Screen, screen
from tests.support.screens import NOW, Paper, PaperSession
from tui.handlers.inside import TITLES

GROUPS = {"1": [0, 1, 2, 3], "10": [0, 4], "2": [1, 5]}


def telling(*, gone: int | None = None) -> PaperSession:
    """Eight ranks of which all tell their steps, and whose dumps tell three groups beside that of all."""
    session = Paper(nodes=1).session()
    samples: list[Any] = []
    for rank, pid in enumerate(session.state.nodes["node1"].ranks):
        if rank != gone:
            samples.append(InsidePulse(pid, 7, NOW - 1, "data", NOW - 1))
            path = f"hangtop.inside, pid {pid}"
            samples += [StepCount(path, pid, rank, "step", float(s), NOW - 9 + s, s, 0) for s in (5, 6, 7)]
    session.samples("node1", [*samples, Tick(1, NOW, 0.01, 0.1, 9 << 20)], 1)
    for rank in range(8):
        own = {name: ranks for name, ranks in GROUPS.items() if rank in ranks}
        made = [entry(rank, seq, open_=False)._replace(group=name, group_description="dp" if name == "10" else "tp")
                for name in own for seq in (1, 2)]  # fmt: skip
        session.state.recorders[rank] = RecorderDump(rank, "2.10", f"node1:/fr_{rank}", NOW - 1, own, [], made)
    return session


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is put to the nodes."""
    found: list[dict[str, Any]] = []

    async def write(_transport: object, _python: str, pids: list[int], **named: Any) -> list[Asked]:
        found.append({"pids": list(pids), **named})
        return [Asked(pid, True, "") for pid in pids]

    monkeypatch.setattr(ask, "write", write)
    monkeypatch.setattr(PaperSession, "transport", lambda *_: None)
    monkeypatch.setattr(PaperSession, "python", lambda *_: "python3")
    return found


async def stand_on(shown: Screen, words: str) -> None:
    """Open panel 9 and move the cursor to the table whose heading has these words."""
    await shown.press("9", "home")
    for _ in range(20):
        if any(words in line and line.lstrip().startswith("▌") for line in shown.lines()):
            return
        await shown.press("down")
    pytest.fail(shown.text())


async def test_the_group_under_the_cursor_is_asked_alone(written: list[dict[str, Any]]) -> None:
    session = telling()
    pids = list(session.state.nodes["node1"].ranks)
    async with screen(session, size=(120, 40)) as shown:
        await stand_on(shown, "group 10 (dp)")
        await shown.press("down", "C")  # a line of that table
        text = shown.text()
        assert text.index("ranks 0,4") < text.index("all ranks of the job")
        assert "group 10 dp, under the cursor" in text
        await shown.press("enter")
        text = shown.text()
        assert [title for name, title in TITLES.items() if title in text] == [TITLES[name] for name in OF_GROUP]
        await shown.press("enter")
        text = shown.text()
        assert "2 ranks, check same of ranks 0,4 at the end of step" in text
        assert "Of the job, ranks 0,4 stop" in text
        await shown.press("e")
        assert f"of node1: {pids[0]} and {pids[4]}" in shown.text()
        await shown.press("y")
        assert any("2 ranks asked for check same of ranks 0,4 at step" in said for said in shown.notices())
    (one,) = written
    assert (one["pids"], one["check"], one["group"]) == ([pids[0], pids[4]], "same", group_number([0, 4]))


async def test_a_group_whose_name_begins_like_anothers_is_told_from_it() -> None:
    async with screen(telling(), size=(120, 40)) as shown:
        await stand_on(shown, "group 1 (tp)")
        await shown.press("C")
        assert "ranks 0-3" in shown.text()


async def test_the_group_of_all_ranks_is_the_job() -> None:
    session = telling()
    for rank, dump in session.state.recorders.items():
        made = [entry(rank, seq, open_=False) for seq in (1, 2)]
        session.state.recorders[rank] = dump._replace(groups={"0": list(range(8))}, collectives=made)
    async with screen(session, size=(120, 40)) as shown:
        await stand_on(shown, "group 0 (default_pg)")
        await shown.press("C")
        assert "Checks that the job makes of itself" in shown.text()


async def test_a_rank_that_has_groups_is_asked_which_is_meant(written: list[dict[str, Any]]) -> None:
    async with screen(telling(), size=(120, 40)) as shown:
        await shown.press("2", "home", "C")
        lines = [line for line in shown.lines() if "ranks" in line]
        text = "\n".join(lines)
        assert text.index("all ranks of the job") < text.index("ranks 0,4") < text.index("ranks 0-3")
        assert "ranks 1,5" not in text
        await shown.press("enter")
        assert "Check the device mesh" in shown.text(), "all ranks can make every check"
        await shown.press("enter", "y")
    assert [one["group"] for one in written] == [0]


async def test_marked_ranks_are_offered_though_no_witness_tells_of_their_group() -> None:
    session = telling()
    session.state.recorders.clear()
    async with screen(session, size=(120, 40)) as shown:
        await shown.press("2", "home", "C")
        assert "Checks that the job makes of itself" in shown.text(), "one rank, and no group is known"
        await shown.press("escape", "space", "space", "C")
        assert "ranks 0-1" in shown.text()
        assert "answered if they are one process group of the job" in shown.text()


async def test_groups_that_the_ranks_tell_themselves_are_offered_without_any_dump() -> None:
    session = telling()
    session.state.recorders.clear()
    lines = [
        "0-4:4 mesh_dp",
        "0-3:1",
        "0,3,4 odd",
        "0-7:1 whole",
        "5-1:0",
        "0-99999999:1",
        "0-8192:2",
        "0-2:2 \x1b[31m",
    ]
    pid = next(iter(session.state.nodes["node1"].ranks))
    session.samples("node1", [InsideFacts(pid, 0, "", [], lines)], 1)
    async with screen(session, size=(120, 40)) as shown:
        await shown.press("2", "home", "C")
        text = shown.text()
        assert "group mesh_dp, by its ranks" in text
        offered = [line.split("│")[1].strip(" >") for line in shown.lines() if "  ranks " in line or "> all" in line]
        assert offered == ["all ranks of the job", "ranks 0,4", "ranks 0,3-4", "ranks 0-3"]


async def test_a_group_with_a_rank_that_would_not_come_is_not_asked(written: list[dict[str, Any]]) -> None:
    async with screen(telling(gone=4), size=(120, 40)) as shown:
        await stand_on(shown, "group 10 (dp)")
        await shown.press("C", "enter", "enter")
        assert any("rank 4 would not come: they tell no steps" in said for said in shown.notices())
    assert written == []
