"""What the nodes of a session are told to do: how often they look, which logs they read and whose lines are on view."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from collectors.samples.control import ENDED, Settings
from hangtop.session.options import SessionOptions
from hangtop.session.pace import LATE, Pace
from hangtop.session.shared_logs import SharedLogs
from hangtop.session.state.changes import Change
from hangtop.session.state.job_state import JobState

CONNECTING = 20
"""Nodes of which one may be connecting while the machine is measured."""


class TellsNodes(Protocol):
    """A feed, as far as it tells nodes what to do."""

    def settings(self, node: str | None, settings: Settings) -> None:
        """Tell one node, or all and those that any starts with."""


class NodeSettings:
    """Tells the nodes behind a feed what changed for them; without a feed there is nobody to tell."""

    def __init__(
        self, options: SessionOptions, state: JobState, feed: TellsNodes | None, now: Callable[[], float]
    ) -> None:
        self._options = options
        self._state = state
        self._feed = feed
        self._now = now
        self._shared_logs = SharedLogs(state)
        self._on_view: tuple[str, ...] = ()
        self._left_behind = False
        self.pace = Pace()

    @property
    def interval(self) -> float:
        """Seconds between two looks of a node: those that were asked for, more on a machine that is too slow for it."""
        return self._options.interval * self.pace.factor

    def of(self, node: str | None = None) -> Settings:
        """What a node side is told: one node's, or those that any starts with."""
        options = self._options
        return Settings(
            interval=self.interval,
            phase=0.0,
            job=list(options.job) if options.job else None,
            log_globs=[*options.logs, *([ENDED] if self._left_behind else [])],
            on_view=list(self._on_view),
            not_mine=list(self._shared_logs.not_mine(node)) if node else [],
            sudo=options.sudo,
        )

    def view_logs(self, paths: Collection[str]) -> None:
        """Ask for the raw lines of these files; ``*`` is every followed file, sampled."""
        wanted = tuple(sorted(paths))
        if wanted != self._on_view:
            self._on_view = wanted
            self._tell_all()

    def read_left_behind(self) -> None:
        """Have nodes on which no rank runs read the logs of a job that ended a short while ago."""
        if not self._left_behind:
            self._left_behind = True
            self._tell_all()

    def share_logs(self) -> None:
        """Have each file that several nodes see read by one of them."""
        for node in self._shared_logs.assign():
            self._tell(node)

    def keep_pace(self) -> None:
        """Have the nodes look less often while this machine cannot keep up with them, and say so."""
        nodes = self._state.nodes.values()
        if sum(node.link == "connecting" for node in nodes) * CONNECTING > len(nodes):
            self.pace.begin()  # handshakes take all that they are given, for a moment
        elif self.pace.changed(self._lateness):
            late = f", and what nodes say lies for {self.pace.late:.1f} s" if self.pace.late > LATE else ""
            text = f"hangtop takes {self.pace.share:.0%} of a core{late}: nodes look every {self.interval:g} s now"
            self._state.changes.append(Change(self._now(), "", text, "hangtop"))
            self._tell_all()

    def _lateness(self) -> float:
        """Seconds by which live nodes' last ticks were read later than their quickest ones, on the average."""
        late = [
            max(0.0, node.seen_at - (node.tick.clock - node.clock_offset))
            for node in self._state.nodes.values()
            if node.link == "live" and node.seen_at and node.tick and node.clock_offset is not None
        ]
        return sum(late) / max(1, len(late))

    def _tell_all(self) -> None:
        self._tell(None)
        for node in self._state.nodes:
            if self._shared_logs.not_mine(node):
                self._tell(node)

    def _tell(self, node: str | None) -> None:
        if self._feed is not None:
            self._feed.settings(node, self.of(node))
