"""What happened, on the overview."""

from __future__ import annotations

import pytest

from hangtop.session.changes import Change
from tests.support.piloted import screen
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
