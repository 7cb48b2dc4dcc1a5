"""Settings for the nodes of a session: how often they sample, which logs they read and which log lines they send."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from collectors.samples.stream import Settings
from hangtop.session.options import SessionOptions
from hangtop.session.state import JobState

Send: TypeAlias = Callable[[str | None, Settings], None]
"""Sends settings to one node; with None to all nodes."""


class NodeSettings:
    """Sends each node its settings when they change."""

    def __init__(self, options: SessionOptions, state: JobState, send: Send) -> None:
        self._options = options
        self._state = state
        self._send = send
        self._on_view: tuple[str, ...] = ()
        self._owners: dict[str, str] = {}
        """File on shared storage → the node that reads it."""
        self._not_mine: dict[str, list[str]] = {}
        """Node → files on shared storage that other nodes read for it."""

    def of(self, node: str | None = None) -> Settings:
        """The settings of one node, or those with which every node starts."""
        options = self._options
        return Settings(
            interval=self._state.interval,
            phase=0.0,
            job=list(options.job) if options.job else None,
            log_globs=list(options.logs),
            on_view=list(self._on_view),
            not_mine=self._not_mine.get(node or "", []),
            sudo=options.sudo,
        )

    def view_logs(self, paths: Collection[str]) -> None:
        """Request the raw lines of these files; ``*`` is a sample of every followed file."""
        wanted = tuple(sorted(paths))
        if wanted != self._on_view:
            self._on_view = wanted
            for node in (None, *self._not_mine):
                self._send(node, self.of(node))

    def share_logs(self) -> None:
        """Assign each file that several nodes see to one node; to another one if that node is lost."""
        seen: dict[str, dict[str, bool]] = {}
        for name, node in self._state.nodes.items():
            for log in node.log_files.values() if node.connected else ():
                if log.shared and log.file_id:
                    seen.setdefault(log.file_id, {})[name] = log.pid in node.ranks
        before, self._not_mine = self._not_mine, {}
        for file, nodes in seen.items():
            if self._owners.get(file) not in nodes:  # preferably the node of the rank that writes the file
                self._owners[file] = max(nodes, key=lambda name: nodes[name])
            for name in nodes:
                if name != self._owners[file]:
                    self._not_mine.setdefault(name, []).append(file)
        for name in sorted(before.keys() | self._not_mine.keys()):
            if before.get(name) != self._not_mine.get(name):
                self._send(name, self.of(name))
