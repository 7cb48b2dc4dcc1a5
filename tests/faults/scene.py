"""Where faults are struck: three real nodes with a small real job, and what is looked at whatever the fault."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from collectors.fleet.sink import LinkChange
from tests.faults.fault import LEFT, Outcome
from tests.faults.running import OnScreen
from tests.support.cluster_node import Node
from tests.support.faulty import FaultyJob, Nurseries, nurseries

MARK = "HX_FAULT_OF_TEST"
"""Variable of what a fault itself runs on a node: it is not hangtop's."""
SETTLE = 2.0
"""Seconds that a session is left alone before a fault, so that what a start takes is not taken for the fault's."""


@dataclass(slots=True)
class Scene:
    """Three nodes with one job, a rank each. Faults strike node2; node1 and node3 must not notice."""

    nursery: Nurseries
    folder: Path
    job: FaultyJob
    made: int = 0
    undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """What is called when the fault is over, whatever came of it."""

    @property
    def nodes(self) -> list[Node]:
        """All nodes."""
        return self.nursery.cluster.nodes

    @property
    def struck(self) -> Node:
        """The node that faults strike."""
        return self.nodes[1]

    @property
    def well(self) -> list[str]:
        """Names of the others."""
        return [node.name for node in self.nodes if node is not self.struck]

    @property
    def reach(self) -> list[str]:
        """Words with which hangtop reaches the nodes and knows the job."""
        cluster = self.nursery.cluster
        return [*cluster.names, "-F", str(cluster.ssh_config), "--job", f"HX_CASE={self.job.case}"]

    def revive(self) -> None:
        """Have the job run, be the last fault what it was: one whose rank is gone is started anew."""
        if not all(self.job.processes(rank) for rank in range(len(self.nodes))):
            self.job.end()
            self.job = _launched(self.nursery)

    def path(self, suffix: str) -> Path:
        """A file that is not there yet."""
        self.made += 1
        return self.folder / f"{self.made}{suffix}"

    @contextlib.contextmanager
    def watch(self) -> Iterator[OnScreen]:
        """A session that watches all nodes, live and settled."""
        with OnScreen(self.path(".htr"), self.reach) as made:
            made.wait_live([node.name for node in self.nodes])
            time.sleep(SETTLE)
            made.usage.begin()
            yield made

    # --- what is left ---------------------------------------------------------------------------------------------

    def foreign(self, node: Node) -> set[int]:
        """Processes of a node that are neither sshd's, nor the job's, nor the fault's: by pid outside."""
        found = set()
        for process in node.processes():
            environ = process.environ()
            mine = "HX_CASE" in environ or MARK in environ or "nursery" in process.command
            if process.state != "Z" and not mine and not process.command.startswith("sshd"):
                found.add(process.host_pid)
        return found

    def before(self) -> dict[str, set[int]]:
        """What is on each node now, for :meth:`left`."""
        return {node.name: self.foreign(node) for node in self.nodes}

    def left(self, before: Mapping[str, set[int]], seconds: float = LEFT) -> tuple[str, ...]:
        """Wait until nothing is on the nodes that was not ``before``; what is after so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            more = {node.name: self.foreign(node) - before[node.name] for node in self.nodes}
            if not any(more.values()) or time.monotonic() > deadline:
                return tuple(
                    f"{node.name}: {process.command[:100]}"
                    for node in self.nodes
                    for process in node.processes()
                    if process.host_pid in more[node.name]
                )
            time.sleep(0.1)


def _launched(nursery: Nurseries) -> FaultyJob:
    job = nursery.launch("lm.py", "trains", ranks_per_node=1, env={"HX_PAUSE": "0.2"})
    job.wait_for("moves")
    return job


@contextlib.contextmanager
def scenes() -> Iterator[Scene]:
    """The nodes and the job, for any number of faults, one after another."""
    with nurseries(3) as nursery:
        folder = nursery.cluster.root / "faults"
        folder.mkdir()
        yield Scene(nursery, folder, _launched(nursery))


def played(scene: Scene, play: Callable[[Scene], Outcome]) -> Outcome:
    """Play a fault, undo what it did to the nodes, and have the job run again."""
    with scene.undo:
        outcome = play(scene)
    scene.revive()
    return outcome


def disturbed(links: Sequence[LinkChange], names: Collection[str], since: float) -> tuple[str, ...]:
    """What befell these nodes' links from a moment on."""
    return tuple(
        f"{change.node} {change.link} {change.why}" for change in links if change.node in names and change.at >= since
    )


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault of one node, struck while a session watches it: what it does, and what must be seen of it.

    ``link`` and ``why`` are the state that must be told.
    """

    begin: Callable[[Scene], None]
    end: Callable[[Scene], None] | None = None
    link: str = "lost"
    why: str = ""
    seconds: float = 45.0
    """Within which it must be told, and again be over."""
    hold: float = 0.0
    """Seconds that it goes on at the least."""

    def __call__(self, scene: Scene) -> Outcome:
        """Strike, wait for the word, end it, wait until all is well, end the session, and look what is left."""
        before = scene.before()
        with scene.watch() as watch:
            name, struck = scene.struck.name, time.time()
            with contextlib.ExitStack() as undo:
                if self.end is not None:
                    undo.callback(self.end, scene)
                self.begin(scene)
                told = watch.wait_link(name, self.link, self.why, since=struck, seconds=self.seconds)
                time.sleep(max(0.0, self.hold - (time.time() - struck)))
            over = time.time() if self.end is not None else struck
            live = watch.wait_link(name, "live", since=told.at, seconds=self.seconds).at
            watch.wait_entry(name, r"^Tick\(", since=max(live, over), seconds=self.seconds)
            watch.quit()
            return Outcome(
                said=f"{told.link}: {told.why}"[:200], recovered=max(0.0, live - over), grown=watch.usage.grown,
                left=scene.left(before), disturbed=disturbed(watch.links(), scene.well, struck),
            )  # fmt: skip
