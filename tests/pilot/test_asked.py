"""What is asked of nodes and job by a key: shown first where it touches the job, refused read-only, told as text."""

from __future__ import annotations

import pytest

from tests.support.piloted import screen
from tests.support.screens import Paper


async def test_the_environment_lint_is_a_key_away() -> None:
    session = Paper(nodes=1, gpus=2).session()
    for node in session.state.nodes.values():
        for rank in node.ranks.values():
            rank.process = rank.process._replace(env={**rank.process.env, "NCCL_TIMEOUT": "1800"})
    async with screen(session) as shown:
        await shown.press("e")
        assert "Environment lint" in shown.text()
        assert "nobody reads NCCL_TIMEOUT" in shown.text()
        await shown.press("escape")
        assert "Environment lint" not in shown.text()


@pytest.mark.parametrize(
    ("key", "brief", "command"),
    [
        ("a", "2 nodes, all_reduce to 16 MiB, about 5 s, gloo, loads the network", "python3 -I -S -B -u -c"),
        ("P", "2 nodes, MTU, loss and throughput between all of them", "python3 -I -S -B -u -c"),
        ("r", "no rank can be asked for a dump", "nothing can be asked"),
    ],
)
async def test_what_touches_the_job_says_so_in_a_line_and_shows_its_command(key: str, brief: str, command: str) -> None:
    async with screen(Paper(nodes=2).session()) as shown:
        await shown.press(key)
        assert brief in shown.text()
        assert command not in shown.text()
        await shown.press("e")
        assert command in shown.text()
        await shown.press("n")
        assert command not in shown.text()
