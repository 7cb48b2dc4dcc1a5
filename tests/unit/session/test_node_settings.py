"""A log on shared storage is read by one node, and by another when that one is lost."""

from __future__ import annotations

from collectors.samples.logs import LogFile
from collectors.samples.stream import Settings
from hangtop.diagnosis.node import Node, Rank
from hangtop.session.node_settings import NodeSettings
from hangtop.session.options import SessionOptions
from hangtop.session.state import JobState
from tests.support.made import process

FILE = LogFile("/shared/rank0.log", "nas:7", 1000, 0, "stdout", 10, "nfs4 nas:/job", "")


class Watched:
    """Settings of a session, and what its nodes were told."""

    def __init__(self, *nodes: str, shared: str = FILE.shared) -> None:
        self.state = JobState()
        for name in nodes:
            files = {FILE.path: FILE._replace(shared=shared)}
            self.state.nodes[name] = Node(name, link="live", log_files=files)
        self.told: list[tuple[str | None, Settings]] = []
        self.node_settings = NodeSettings(SessionOptions(), self.state, self.settings)

    def settings(self, node: str | None, settings: Settings) -> None:
        self.told.append((node, settings))

    def shared(self) -> dict[str, list[str]]:
        """Files that each node leaves to others."""
        self.node_settings.share_logs()
        return {name: self.node_settings.of(name).not_mine for name in self.state.nodes}


def test_a_log_on_shared_storage_is_read_by_the_node_of_its_rank_alone() -> None:
    watched = Watched("node1", "node2", "node3")
    node = watched.state.nodes["node2"]
    node.ranks[1000] = Rank("node2", process(0))
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
