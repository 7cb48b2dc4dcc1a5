"""A log on shared storage is read by one node, and by another when that one is lost."""

from __future__ import annotations

from collectors.samples.logs import LogFile
from hangtop.session.node_settings import SharedLogs
from hangtop.session.state.job_state import JobState, NodeState, RankState
from hangtop.session.state.time_series import TimeSeries
from tests.support.made import process

FILE = LogFile("/shared/rank0.log", "nas:7", 1000, 0, "stdout", 10, "nfs4 nas:/job", "")


def _state(*names: str) -> JobState:
    state = JobState()
    for name in names:
        state.nodes[name] = NodeState(name, link="live", log_files={FILE.path: FILE})
    return state


def test_the_node_of_the_rank_reads_it() -> None:
    state = _state("node1", "node2", "node3")
    node = state.nodes["node2"]
    node.ranks[1000] = RankState("node2", process(0), TimeSeries(node.pulses, 1000))
    logs = SharedLogs(state)
    assert logs.assign() == ["node1", "node3"]
    assert [logs.not_mine(name) for name in state.nodes] == [("nas:7",), (), ("nas:7",)]
    assert logs.assign() == []


def test_another_takes_over_and_keeps_it() -> None:
    state = _state("node1", "node2")
    logs = SharedLogs(state)
    logs.assign()
    assert logs.not_mine("node2") == ("nas:7",)
    state.nodes["node1"].link = "lost"
    assert logs.assign() == ["node2"]
    assert logs.not_mine("node2") == ()
    state.nodes["node1"].link = "live"
    logs.assign()
    assert (logs.not_mine("node1"), logs.not_mine("node2")) == ((), ("nas:7",))


def test_local_files_of_the_same_id_are_everybodys_own() -> None:
    state = _state("node1", "node2")
    for node in state.nodes.values():
        node.log_files[FILE.path] = FILE._replace(shared="")
    assert SharedLogs(state).assign() == []
