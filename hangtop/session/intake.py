"""What a session takes in: samples and connections from its feed, looks at stacks, answers of sources, marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from collectors.fleet.sink import LinkChange
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.job import Look
from hangtop.session.entries import BadLine, StackLook
from hangtop.session.motion.progress import Progress
from hangtop.session.options import SessionOptions
from hangtop.session.recordings import Recordings
from hangtop.session.state.job_state import JobState, NodeState
from hangtop.session.state.sharing import shared_dump, shared_stack
from hangtop.session.store import Store


def _names(node: NodeState) -> tuple[str, ...]:
    """What the node is called, by its user first: a cluster's own name for it may be another."""
    hostname = node.hello.hostname if node.hello is not None else ""
    own = {rank.process.env.get("SLURMD_NODENAME", "") for rank in node.ranks.values()}
    return tuple(dict.fromkeys(filter(None, (*sorted(own), hostname, node.name.rpartition("@")[2]))))


class Intake:
    """The sink of a feed, and of all that is asked beside it: into the state, the signs of progress and what is kept.

    ``state`` is the latest of everything; ``now`` the session's present, wall clock or a recording's time.
    """

    def __init__(self, options: SessionOptions, now: Callable[[], float]) -> None:
        self.now = now
        self._store = Store(clock=now)
        self.progress = Progress(self._store.state)
        self.recordings = Recordings(options, self._store.state, now)
        self._leaves: Mapping[str, str] = {}
        """Leaf switch by Slurm's name of a node."""

    @property
    def state(self) -> JobState:
        """The latest of everything."""
        return self._store.state

    def samples(self, node: str, samples: Sequence[NamedTuple]) -> None:
        """Take what came from a node (see :class:`collectors.fleet.sink.Sink`)."""
        self._store.samples(node, samples)
        self.recordings.take(node, samples)

    def link(self, change: LinkChange) -> None:
        """Take a node's new connection state."""
        self._store.link(change)
        self.recordings.take(change.node, [change])

    def bad_line(self, node: str, text: str, why: str) -> None:
        """Count a line that did not decode."""
        self._store.bad_line(node, text, why)
        self.recordings.take(node, [BadLine(text, why)])

    def located(self, leaves: Mapping[str, str]) -> None:
        """Take the leaf switches of nodes, by Slurm's names of the nodes."""
        self._leaves = leaves

    def _find_leaves(self) -> None:
        """Give nodes their leaf switches, as the names that they have become known."""
        for node in self.state.nodes.values() if self._leaves else ():
            if not node.leaf:
                names = (known for name in _names(node) for known in (name.lower(), name.lower().partition(".")[0]))
                node.leaf = next((self._leaves[name] for name in names if name in self._leaves), "")

    def stacks(self, node: str, dumps: Sequence[StackDump]) -> None:
        """Take what a look at a node's stacks brought, on this machine's clock."""
        named = [(node, shared_stack(dump)) for dump in dumps]
        self.state.stacks.extend(named)
        self.progress.saw(named)
        self.recordings.take(node, [StackLook(dump) for dump in dumps])

    def take_report(self, said: RecorderDump | RasReport) -> None:
        """Take what a flight recorder held, or RAS answered."""
        if isinstance(said, RecorderDump):
            self.state.recorders[said.rank] = shared_dump(said)
        else:
            self.state.ras.append(Look(self.now(), said))
        self.recordings.take("", [said])
