"""What the nodes of a session are told to do: how often they look, which logs they read and whose lines are on view.

A screen on 2,048 nodes takes most of a core. On a machine that has none to spare, samples would pile up in the sockets,
and keys would wait for all of them. So a session that takes nearly a whole core, or is given no more while samples come
late, asks its nodes to look half as often, and twice as often again once it has room.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Protocol

from collectors.samples.control import ENDED, Settings
from hangtop.session.options import SessionOptions
from hangtop.session.state.changes import Change
from hangtop.session.state.job_state import JobState, NodeState

PERIOD = 5.0
"""Seconds over which the CPU is measured."""
BUSY = 0.85
"""Share of a core from which on it is too much, twice in a row: connecting takes it all for a moment."""
LATE = 0.5
"""Seconds that samples lie about on the average before they are read, from which on it is too much, too; …"""
OURS = 0.3
"""… if this process takes that share of a core: with less the network is slow, not this machine."""
ROOM = 0.45
"""Share under which twice as many looks would fit: not all of it is looks."""
SLOWEST = 8
"""Times as long between two looks, at the most: what is older than that is of little use."""


class Pace:
    """Measures this process; ``factor`` is how many times as long as asked for nodes take between two looks."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = time.process_time
    ) -> None:
        self._clock, self._cpu = clock, cpu
        self._from = clock(), cpu()
        self._was_busy = False
        self.factor = 1
        self.share = 0.0
        """Share of a core that this process took when it was last measured."""
        self.late = 0.0
        """Seconds that samples lay about then."""

    def begin(self) -> None:
        """Measure from here: what was done until now was other work than reading samples."""
        self._from = self._clock(), self._cpu()
        self._was_busy = False

    def changed(self, late: Callable[[], float]) -> bool:
        """Measure, when it is time to; tell whether ``factor`` is another now.

        ``late`` tells how many seconds samples lie about on the average before they are read.
        """
        now, used = self._clock(), self._cpu()
        passed = now - self._from[0]
        if passed < PERIOD:
            return False
        self.share = (used - self._from[1]) / passed
        self._from = now, used
        self.late = late()
        busy, before = self.share > BUSY or (self.late > LATE and self.share > OURS), self.factor
        if busy and self._was_busy:
            self.factor = min(SLOWEST, self.factor * 2)
        elif self.share < ROOM and not busy:
            self.factor = max(1, self.factor // 2)
        self._was_busy = busy and self.factor == before
        return self.factor != before


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
