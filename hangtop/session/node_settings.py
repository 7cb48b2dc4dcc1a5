"""What the nodes of a session are told to do: how often they look, which logs they read and whose lines are on view."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Protocol

from collectors.samples.control import ENDED, Settings
from hangtop.session.options import SessionOptions
from hangtop.session.state.changes import Change
from hangtop.session.state.job_state import JobState

PERIOD = 5.0
"""Seconds over which this process's share of a core is measured."""
BUSY, ROOM = 0.85, 0.45
"""Shares of a core from which on it is too much (twice in a row: connecting takes it all for a moment), and under which
twice as many looks would fit: not all of it is looks."""
SLOWEST = 8
"""Times as long between two looks, at the most: what is older than that is of little use."""
CONNECTING = 20
"""Nodes of which one may be connecting while this process is measured."""
READING = {"live", "limited"}


class TellsNodes(Protocol):
    """A feed, as far as it tells nodes what to do."""

    def settings(self, node: str | None, settings: Settings) -> None:
        """Tell one node, or all and those that any starts with."""


class NodeSettings:
    """Tells the nodes behind a feed what changed for them; without a feed there is nobody to tell.

    A screen on 2,048 nodes takes most of a core. Where that core is not there, samples pile up in the sockets, and keys
    wait for all of them: so a session that takes nearly a whole core asks its nodes to look half as often, and twice as
    often again once it has room.
    """

    def __init__(
        self,
        options: SessionOptions,
        state: JobState,
        feed: TellsNodes | None,
        now: Callable[[], float],
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._options = options
        self._state = state
        self._feed = feed
        self._now = now
        self._clock, self._cpu = clock, cpu
        self._measured = clock(), cpu()
        self._was_busy = False
        self.factor = 1
        """How many times as long as asked for nodes take between two looks."""
        self._on_view: tuple[str, ...] = ()
        self._left_behind = False
        self._owners: dict[str, str] = {}
        """File on shared storage → the node that reads it."""
        self._not_mine: dict[str, list[str]] = {}
        """Node → such files that it leaves to others."""

    @property
    def interval(self) -> float:
        """Seconds between two looks of a node: those that were asked for, more on a machine that is too slow for it."""
        return self._options.interval * self.factor

    def of(self, node: str | None = None) -> Settings:
        """What a node side is told: one node's, or those that any starts with."""
        options = self._options
        return Settings(
            interval=self.interval,
            phase=0.0,
            job=list(options.job) if options.job else None,
            log_globs=[*options.logs, *([ENDED] if self._left_behind else [])],
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

    def read_left_behind(self) -> None:
        """Have nodes on which no rank runs read the logs of a job that ended a short while ago."""
        if not self._left_behind:
            self._left_behind = True
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

    def keep_pace(self) -> None:
        """Have the nodes look less often while this process takes nearly a whole core, and say so."""
        nodes = self._state.nodes.values()
        now, used = self._clock(), self._cpu()
        passed, share = now - self._measured[0], used - self._measured[1]
        if sum(node.link == "connecting" for node in nodes) * CONNECTING > len(nodes):
            self._measured, self._was_busy = (now, used), False  # handshakes take all that they are given
        elif passed >= PERIOD:
            self._measured = now, used
            self._set_factor(share / passed)

    def _set_factor(self, share: float) -> None:
        before, busy = self.factor, share > BUSY
        if busy and self._was_busy:
            self.factor = min(SLOWEST, self.factor * 2)
        elif share < ROOM:
            self.factor = max(1, self.factor // 2)
        self._was_busy = busy and self.factor == before
        if self.factor != before:
            text = f"hangtop takes {share:.0%} of a core: nodes look every {self.interval:g} s now"
            self._state.changes.append(Change(self._now(), "", text, "hangtop"))
            self._tell_all()

    def _tell_all(self) -> None:
        self._tell(None)
        for node in self._not_mine:
            self._tell(node)

    def _tell(self, node: str | None) -> None:
        if self._feed is not None:
            self._feed.settings(node, self.of(node))
