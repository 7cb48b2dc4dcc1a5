"""The map of a large job keeps in view who holds the others up, and the node under the cursor."""

from __future__ import annotations

import pytest

from tests.support.piloted import Screen, screen
from tests.support.screens import Paper, hung


def shows(shown: Screen, node: str) -> bool:
    """Whether a node stands in the map, under its cursor."""
    return any(f"▸ {node} " in line for line in shown.lines())


@pytest.mark.parametrize("rank", [259, 300])
async def test_who_holds_the_others_up_is_in_view_though_the_map_is_longer(rank: int) -> None:
    node = f"node{rank // 8 + 1}"
    paper = Paper(nodes=64, gpus=8, slow=rank)
    session = paper.session(ticks=3)
    async with screen(session, size=(80, 24)) as shown:
        session.publish(hung(rank, node))
        await shown.draw()
        assert shows(shown, node)
        for size in ((120, 40), (80, 24), (100, 20)):
            await shown.pilot.resize_terminal(*size)
            await shown.draw()
            assert shows(shown, node), size


async def test_the_cursor_stays_in_view_when_lines_are_lost() -> None:
    async with screen(Paper(nodes=64, gpus=8).session(ticks=3), size=(80, 40)) as shown:
        await shown.press(*["down"] * 18)
        await shown.draw()
        assert shows(shown, "node19")
        await shown.pilot.resize_terminal(80, 20)
        await shown.draw()
        assert shows(shown, "node19")
