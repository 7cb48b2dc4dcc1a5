"""Which node reads a log file that several of them see: one file on shared storage is read once, by one node."""

from __future__ import annotations

from hangtop.session.state.job_state import JobState, NodeState

READING = {"live", "limited"}


class SharedLogs:
    """Gives every file on shared storage to one node that is there, and to another when that one is lost."""

    def __init__(self, state: JobState) -> None:
        self._state = state
        self._owners: dict[str, str] = {}
        self._not_mine: dict[str, tuple[str, ...]] = {}

    def not_mine(self, node: str) -> tuple[str, ...]:
        """Files that this node leaves to others, by their id."""
        return self._not_mine.get(node, ())

    def assign(self) -> list[str]:
        """Bring the assignment up to date; returns the nodes for which it changed."""
        seen = self._seen()
        self._owners = {file: self._owner(file, nodes) for file, nodes in seen.items() if len(nodes) > 1}
        wanted: dict[str, list[str]] = {}
        for file, owner in sorted(self._owners.items()):
            for node in seen[file]:
                if node != owner:
                    wanted.setdefault(node, []).append(file)
        now = {node: tuple(files) for node, files in wanted.items()}
        changed = [node for node in now.keys() | self._not_mine.keys() if now.get(node) != self._not_mine.get(node)]
        self._not_mine = now
        return sorted(changed)

    def _seen(self) -> dict[str, dict[str, bool]]:
        """File → the nodes that see it and could read it → whether the rank that writes it is there."""
        seen: dict[str, dict[str, bool]] = {}
        for name, node in self._state.nodes.items():
            if node.link in READING:
                for file, its_rank in _shared(node):
                    seen.setdefault(file, {})[name] = its_rank
        return seen

    def _owner(self, file: str, nodes: dict[str, bool]) -> str:
        before = self._owners.get(file)
        if before in nodes:
            return before
        return next((node for node, its_rank in nodes.items() if its_rank), next(iter(nodes)))


def _shared(node: NodeState) -> list[tuple[str, bool]]:
    return [(log.file_id, log.pid in node.ranks) for log in node.log_files.values() if log.shared and log.file_id]
