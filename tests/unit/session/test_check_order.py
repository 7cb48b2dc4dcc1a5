"""Whom a check is asked of: all ranks or those of a group, and who refuses."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.fleet.transport import TransportError
from collectors.probes.inside import ask
from collectors.probes.inside.remote.question import Asked
from collectors.samples.inside import InsideFinding, InsidePulse, InsideResult
from hangtop.session.asking.inside import REPLICAS, InsideRefused, ask_ranks, plan
from tests.support.screens import NOW, Paper, PaperSession


@pytest.fixture
def session() -> PaperSession:
    """Eight ranks on a node, of which all but the last tell their steps."""
    made = Paper(nodes=1).session()
    *pids, _ = made.state.nodes["node1"].ranks
    made.samples("node1", [InsidePulse(pid, 7, NOW - 1, "data", NOW - 1) for pid in pids], 1)
    return made


def test_a_group_alone_is_asked_whatever_the_others_tell(session: PaperSession) -> None:
    with pytest.raises(InsideRefused, match="rank 7 would not come"):
        plan(session.job(), "same", 0.1)
    order = plan(session.job(), "same", 0.1, {2, 0})
    assert ([rank.rank for rank in order.ranks], order.within, order.at_step) == ([0, 2], (0, 2), 67)
    assert order.title() == "check same of ranks 0,2"
    assert order.command().startswith("write “check same of ranks 0,2 at the end of step 67” onto the pages of node1: ")
    assert "Of the job, ranks 0,2 stop for it at the end of that step, 60 s at most." in order.cost()
    assert order.cost().endswith(REPLICAS)
    assert REPLICAS not in plan(session.job(), "barrier", 0.1, {2, 0}).cost()


@pytest.mark.parametrize(
    ("check", "within", "why"),
    [
        ("same", {0, 7}, "rank 7 would not come: they tell no steps"),
        ("same", {0, 9}, "rank 9 would not come: no such process is seen, so nobody was asked"),
        ("placement", {0, 1}, "check placement is made by all ranks"),
        ("barrier", {3}, "rank 3 alone is no group to check"),
    ],
)
def test_a_group_that_cannot_make_it_is_not_asked(
    session: PaperSession, check: str, within: set[int], why: str
) -> None:
    with pytest.raises(InsideRefused, match=why):
        plan(session.job(), check, 0.1, within)


def test_what_one_group_found_stays_when_another_made_the_same_check(session: PaperSession) -> None:
    pid = next(iter(session.state.nodes["node1"].ranks))
    finding = InsideFinding("replicas_differ", "critical", "fc.weight differs", [2], [], "")

    def told(at: float, ranks: list[int], findings: list[InsideFinding]) -> list[list[int]]:
        session.samples("node1", [InsideResult(pid, "same", at, 0, ranks, not findings, 0.1, "x", findings)], 1)
        inside = session.state.nodes["node1"].ranks[pid].inside
        return [] if inside is None else [one.ranks for one in inside.results]

    assert told(NOW - 5, [0, 2], [finding]) == [[0, 2]]
    assert told(NOW - 4, [0, 1], []) == [[0, 2], [0, 1]]
    assert told(NOW - 3, [0, 2], []) == [[0, 1], [0, 2]]
    assert told(NOW - 2, [0, 1, 2, 3], []) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("lost", [False, True])
async def test_where_one_cannot_be_asked_the_question_is_taken_back_from_all(
    monkeypatch: pytest.MonkeyPatch, *, lost: bool
) -> None:
    """The others would stop for a check to which that one does not come."""
    session = Paper(nodes=2).session()
    for node in session.state.nodes.values():
        session.samples(node.name, [InsidePulse(pid, 7, NOW - 1, "", None) for pid in node.ranks], 1)
    taken_back: list[tuple[str, int]] = []

    async def write(node: str, _python: str, pids: list[int], **_named: Any) -> list[Asked]:
        if node == "node2" and lost:
            raise TransportError("gone")
        return [Asked(pid, node == "node1" or pid != pids[3], "another user's") for pid in pids]

    async def withdraw(node: str, _python: str, pids: list[int], *, number: int) -> list[Asked]:
        taken_back.append((node, number))
        if node == "node2" and lost:
            raise TransportError("gone")
        return []

    monkeypatch.setattr(ask, "write", write)
    monkeypatch.setattr(ask, "withdraw", withdraw)
    monkeypatch.setattr(PaperSession, "transport", lambda _session, node: node)
    monkeypatch.setattr(PaperSession, "python", lambda *_: "python3")
    order = plan(session.job(), "barrier", 0.1)
    (line,) = await ask_ranks(session, order)
    assert line.startswith("node2")
    assert line.endswith("gone" if lost else "another user's")
    assert taken_back == [("node1", order.number), ("node2", order.number)]
