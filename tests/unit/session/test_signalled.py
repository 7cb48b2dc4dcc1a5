"""Who could be signalled for their stacks, and what would be sent to whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.samples.inside import InsideFacts, InsideGone
from collectors.samples.stacks import StackDump
from hangtop.session.asking.signalled import to_signal
from hangtop.session.watching.looking import no_dump
from tests.support.screens import Paper, PaperSession
from tests.support.stacks import main_dump

REFUSED = "denied: ptrace"


def session() -> PaperSession:
    made = Paper(nodes=2, gpus=2).session()
    for node in ("node1", "node2"):
        made.samples(node, [InsideFacts(pid, 63, "", []) for pid in made.state.nodes[node].ranks], 1)
    return made


def refused(made: PaperSession, error: str = REFUSED) -> list[tuple[str, StackDump]]:
    return [(node, no_dump(pid, error)) for node in made.state.nodes for pid in made.state.nodes[node].ranks]


def test_those_that_were_refused_and_named_a_signal() -> None:
    made = session()
    order = to_signal(made, refused(made))
    assert order is not None
    assert order.ranks == {0, 1, 2, 3}
    assert order.brief() == "a signal to ranks 0-3 on 2 nodes, which py-spy may not look at"
    first, second = ([str(pid) for pid in made.state.nodes[node].ranks] for node in ("node1", "node2"))
    assert order.command() == f"node1: kill -63 {' '.join(first)}\nnode2: kill -63 {' '.join(second)}"


@pytest.mark.parametrize("error", ["gone: no such process", "stopped: T", "timeout: py-spy", "unreachable: cut"])
def test_nobody_whose_stack_is_missing_for_another_reason(error: str) -> None:
    made = session()
    assert to_signal(made, refused(made, error)) is None


def test_nobody_whose_stack_came_or_who_has_no_page_and_nobody_when_read_only() -> None:
    made = session()
    pid = next(iter(made.state.nodes["node1"].ranks))
    assert to_signal(made, [("node1", main_dump("step train.py:1")._replace(pid=pid, rank_pid=pid))]) is None
    made.samples("node1", [InsideGone(pid, 5.0)], 1)
    assert to_signal(made, [("node1", no_dump(pid, REFUSED))]) is None
    made.options = replace(made.options, read_only=True)
    assert to_signal(made, refused(made)) is None
