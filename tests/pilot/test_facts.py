"""What the details of a rank tell."""

from __future__ import annotations

from collectors.samples.ranks import CpuWait
from tests.support.piloted import screen
from tests.support.screens import PID, Paper
from tui.panels.overview import OverviewPanel


async def test_what_a_rank_lacks_of_cpu_time_and_which_it_is_on_its_node() -> None:
    paper = Paper(nodes=1, gpus=2)
    session = paper.session()
    session.samples("node1", [CpuWait(PID, 95, "0-1", 0)], 99)
    async with screen(session, size=(160, 40)) as shown:
        await shown.press("2", "i")
        text = " ".join(shown.text().replace("│", " ").split())
        assert "waits 95% of the time for one; may run on CPUs 0-1 at nice 0" in text
        assert "0 of 2 on node1" in text
        await shown.press("escape")
        rank = next(iter(session.state.nodes["node1"].ranks.values()))
        rank.process = rank.process._replace(local_world_size=None)
        await shown.press("i")
        assert "0 on node1" in shown.text()


async def test_the_head_over_short_names_is_whole() -> None:
    async with screen(Paper(nodes=2, gpus=2, names=("a", "b")).session(), size=(160, 40)) as shown:
        assert isinstance(shown.app.panel, OverviewPanel)
        assert any("rank node" in line for line in shown.lines())
