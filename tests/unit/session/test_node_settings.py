"""What nodes are told: how often to look while this machine cannot keep up, and who reads a log on shared storage."""

from __future__ import annotations

import pytest

from collectors.fleet.sink import LinkChange
from collectors.samples.control import Settings
from collectors.samples.logs import LogFile
from hangtop.session.node_settings import BUSY, PERIOD, ROOM, NodeSettings
from hangtop.session.options import SessionOptions
from hangtop.session.state.job_state import JobState, NodeState, RankState
from hangtop.session.state.time_series import TimeSeries
from tests.support.made import process

FILE = LogFile("/shared/rank0.log", "nas:7", 1000, 0, "stdout", 10, "nfs4 nas:/job", "")


class Watched:
    """Settings of a session whose clock and CPU are turned by hand, and what nodes were told."""

    def __init__(self, *nodes: str, shared: str = FILE.shared) -> None:
        self.time = self.used = 100.0
        self.state = JobState()
        for name in nodes:
            files = {FILE.path: FILE._replace(shared=shared)}
            self.state.nodes[name] = NodeState(name, link="live", log_files=files)
        self.told: list[tuple[str | None, Settings]] = []
        self.node_settings = NodeSettings(
            SessionOptions(), self.state, self, lambda: 1.0, clock=lambda: self.time, cpu=lambda: self.used
        )

    def settings(self, node: str | None, settings: Settings) -> None:
        self.told.append((node, settings))

    def run(self, *shares: float) -> list[int]:
        """The factor after each period with these shares of a core."""
        factors = []
        for share in shares:
            self.time += PERIOD
            self.used += share * PERIOD
            self.node_settings.keep_pace()
            factors.append(self.node_settings.factor)
        return factors

    def shared(self) -> dict[str, list[str]]:
        """Files that each node leaves to others."""
        self.node_settings.share_logs()
        return {name: self.node_settings.of(name).not_mine for name in self.state.nodes}


@pytest.mark.parametrize(
    ("shares", "factors"),
    [
        ([0.1, 0.6, BUSY - 0.01], [1, 1, 1]),
        ([0.99, 0.5, 0.99, 0.5], [1, 1, 1, 1]),
        ([0.99] * 8, [1, 2, 2, 4, 4, 8, 8, 8]),
        ([0.99, 0.99, 0.5, ROOM + 0.01, 0.2], [1, 2, 2, 2, 1]),
    ],
)
def test_nodes_look_less_often_while_this_machine_cannot_keep_up(shares: list[float], factors: list[int]) -> None:
    assert Watched("node1").run(*shares) == factors


def test_nodes_and_the_user_are_told() -> None:
    watched = Watched("node1")
    watched.run(1.0, 1.0)
    assert [(node, settings.interval) for node, settings in watched.told] == [(None, 2.0)]
    assert [*watched.state.changes][-1].text == "hangtop takes 100% of a core: nodes look every 2 s now"


def test_connecting_is_no_reason_to_look_less_often() -> None:
    watched = Watched("node1")
    watched.state.nodes["node1"].link = LinkChange("node1", "connecting", "", 1.0).link
    assert watched.run(1.0, 1.0) == [1, 1]


def test_a_log_on_shared_storage_is_read_by_the_node_of_its_rank_alone() -> None:
    watched = Watched("node1", "node2", "node3")
    node = watched.state.nodes["node2"]
    node.ranks[1000] = RankState("node2", process(0), TimeSeries(node.pulses, 1000))
    assert watched.shared() == {"node1": ["nas:7"], "node2": [], "node3": ["nas:7"]}
    assert [name for name, _ in watched.told] == ["node1", "node3"]
    watched.shared()
    assert len(watched.told) == 2


def test_another_node_takes_over_and_keeps_the_file() -> None:
    watched = Watched("node1", "node2")
    assert watched.shared()["node2"] == ["nas:7"]
    watched.state.nodes["node1"].link = "lost"
    assert watched.shared()["node2"] == []
    watched.state.nodes["node1"].link = "live"
    assert watched.shared() == {"node1": ["nas:7"], "node2": []}


def test_local_files_of_the_same_id_are_everybodys_own() -> None:
    assert Watched("node1", "node2", shared="").shared() == {"node1": [], "node2": []}
