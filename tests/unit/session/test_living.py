"""Who lives is told anew only when a rank came or went, and then at once."""

from __future__ import annotations

from collectors.samples.ranks import RankGone
from tests.support.made import pulse
from tests.support.screens import NOW, Paper


def test_the_living_are_those_of_this_moment() -> None:
    session = Paper(nodes=2, gpus=2).session(ticks=2)
    before = session.living()
    assert [rank.process.rank for rank in before] == [0, 1, 2, 3]
    assert session.living() is before, "nobody came or went"
    session.samples("node2", [RankGone(before[3].process.pid, 3, NOW)], 1)
    assert [rank.process.rank for rank in session.living()] == [0, 1, 2]
    session.samples("node2", [before[3].process._replace(pid=9000, started=NOW), pulse(9000)], 1)
    assert [rank.process.pid for rank in session.living()][3] == 9000
