"""What the nodes of a session are told to do: how often they look, which logs they read and whose lines are on view."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from collectors.samples.control import Settings
from hangtop.session.options import SessionOptions
from hangtop.session.state.job_state import JobState

READING = {"live", "limited"}
Send: TypeAlias = Callable[[str | None, Settings], None]
"""Sends settings to one node, or to all and those that any starts with."""


class NodeSettings:
    """Tells the nodes behind a feed what changed for them; without a feed there is nobody to tell."""

    def __init__(self, options: SessionOptions, state: JobState, send: Send | None) -> None:
        self._options = options
        self._state = state
        self._send = send
        self._on_view: tuple[str, ...] = ()
        self._owners: dict[str, str] = {}
        """File on shared storage → the node that reads it."""
        self._not_mine: dict[str, list[str]] = {}
        """Node → such files that it leaves to others."""

    def of(self, node: str | None = None) -> Settings:
        """What a node side is told: one node's, or those that any starts with."""
        options = self._options
        return Settings(
            interval=options.interval,
            phase=0.0,
            job=list(options.job) if options.job else None,
            log_globs=list(options.logs),
            on_view=list(self._on_view),
            not_mine=self._not_mine.get(node or "", []),
            sudo=options.sudo,
        )

    def view_logs(self, paths: Collection[str]) -> None:
        """Ask for the raw lines of these files; ``*`` is every followed file, sampled."""
        wanted = tuple(sorted(paths))
        if wanted != self._on_view:
            self._on_view = wanted
            self._tell_all()

    def share_logs(self) -> None:
        """Have each file that several nodes see read by one of them; by another one when that node is lost."""
        seen: dict[str, dict[str, bool]] = {}
        for name, node in self._state.nodes.items():
            for log in node.log_files.values() if node.link in READING else ():
                if log.shared and log.file_id:
                    seen.setdefault(log.file_id, {})[name] = log.pid in node.ranks
        self._owners = {file: self._owner(file, nodes) for file, nodes in seen.items()}
        before, self._not_mine = self._not_mine, {}
        for file, owner in sorted(self._owners.items()):
            for name in seen[file]:
                if name != owner:
                    self._not_mine.setdefault(name, []).append(file)
        for name in sorted(before.keys() | self._not_mine.keys()):
            if before.get(name) != self._not_mine.get(name):
                self._tell(name)

    def _owner(self, file: str, nodes: dict[str, bool]) -> str:
        """The node that reads a file: the one before; else one with the rank that writes it."""
        known = self._owners.get(file)
        if known in nodes:
            return known
        return next((node for node, its_rank in nodes.items() if its_rank), next(iter(nodes)))

    def _tell_all(self) -> None:
        self._tell(None)
        for node in self._not_mine:
            self._tell(node)

    def _tell(self, node: str | None) -> None:
        if self._send is not None:
            self._send(node, self.of(node))
