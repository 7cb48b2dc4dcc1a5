"""What Slurm says of nodes, on the panel of nodes: only where Slurm is asked."""

from __future__ import annotations

from dataclasses import replace

from collectors.fleet.targets.slurm_nodes import Scheduled
from tests.support.piloted import screen
from tests.support.screens import Paper


async def test_job_time_and_reason_are_shown_where_slurm_is_asked() -> None:
    session = Paper(nodes=2).session()
    async with screen(session, size=(240, 40)) as shown:
        await shown.press("6")
        assert "slurm" not in shown.text()
    session = Paper(nodes=2).session()
    session.options = replace(session.options, slurm="17")
    async with screen(session, size=(240, 40)) as shown:
        session.scheduled(
            {
                "node1": Scheduled("17+0", "1-02:03:04", ("17.0 [/bold]train",), "drained", "bad gpu [/] xid 79"),
                "elsewhere": Scheduled("17+1"),
            }
        )
        await shown.press("6")
        line = next(line for line in shown.lines() if "node1" in line and "17+0" in line)
        assert "1-02:03:04" in line
        assert "drained bad gpu" in line
        assert "elsewhere" not in session.state.nodes
        await shown.press("i")
        assert "17+0, 1-02:03:04 left" in shown.text()
        assert "17.0 [/bold]train" in shown.text()
