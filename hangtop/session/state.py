"""The latest state of a job, which samples update and screens draw.

There is one writer (the session's event loop) and any number of readers in the same thread; readers change nothing.
Moving figures are kept for about a minute; recordings keep them longer.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Generic, Literal, TypeVar

from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.logs import CommProgress, LogEvent, LogLines
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.finding import Outcome
from hangtop.diagnosis.node import Node, Rank
from hangtop.diagnosis.series import MOST_KEPT, Timed

T = TypeVar("T")

MEMORY = 32 << 20
"""Approximate bytes that the items of one kind may take; each item takes at least 1000."""


def size_of(item: object) -> int:
    """Approximate bytes of memory of an event or of log lines."""
    if isinstance(item, LogEvent):
        return 1000 + len(item.text) + sum(len(str(value)) + 100 for value in item.data.values())
    return 1000 + sum(len(line) + 60 for line in item.lines) if isinstance(item, LogLines) else 1000


class Kept(Generic[T]):
    """Items of several owners in order of arrival; beyond the limit, the largest owner loses its older half."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory = memory
        self._items: deque[tuple[int, str, T]] = deque()
        """(number since the beginning, owner, item)."""
        self._bytes: Counter[str] = Counter()
        self._held = 0
        self.total = 0
        """Number of items ever added: readers use it as their position."""

    def add(self, owner: str, item: T) -> None:
        """Add an item."""
        self._items.append((self.total, owner, item))
        self.total += 1
        self._count(owner, size_of(item))
        if self._held > self._memory:
            largest = max(self._bytes, key=self._bytes.__getitem__)
            of_largest = [(number, item) for number, owner, item in self._items if owner == largest]
            gone = dict(of_largest[: (len(of_largest) + 1) // 2])
            self._items = deque(entry for entry in self._items if entry[0] not in gone)
            self._count(largest, -sum(map(size_of, gone.values())))

    def _count(self, owner: str, size: int) -> None:
        self._bytes[owner] += size
        self._held += size

    def since(self, total: int) -> list[tuple[str, T]]:
        """(owner, item) of the kept items added after the first ``total`` ones, in order."""
        later = [*takewhile(lambda entry: entry[0] >= total, reversed(self._items))]
        return [(owner, item) for _, owner, item in reversed(later)]

    def only(self, wanted: Callable[[T], bool]) -> Kept[T]:
        """The items for which ``wanted`` is true."""
        found: Kept[T] = Kept(self._memory)
        for owner, item in self:
            if wanted(item):
                found.add(owner, item)
        return found

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return ((owner, item) for _, owner, item in self._items)

    def __reversed__(self) -> Iterator[tuple[str, T]]:
        return ((owner, item) for _, owner, item in reversed(self._items))

    def __len__(self) -> int:
        return len(self._items)


# --- what happened ----------------------------------------------------------------------------------------------------

ChangeKind = (
    Literal["started", "ended", "stopped", "lost", "back", "late", "gpu", "port", "kernel", "dump"]
    | Literal["hangtop", "other"]
    | Outcome
)
"""Kind of a change: of a rank, a node, a source of samples, a GPU, a port, the kernel; a dump that the user asked for;
a new outcome of the verdict; ``hangtop``: of interest only for hangtop itself."""


@dataclass(slots=True)
class Change:
    """Something that happened, for the overview and the timeline."""

    at: float
    node: str
    text: str
    kind: ChangeKind = "other"


TOGETHER = 5.0
"""Seconds within which changes of one kind count as one."""
SILENT: frozenset[ChangeKind] = frozenset({"hangtop", "other", "starting", "unknown"})
"""Kinds of changes without a mark."""


def marks(changes: Iterable[Change]) -> list[Change]:
    """The changes that a timeline shows, oldest first: of a series of one kind, only the first."""
    found: list[Change] = []
    last: dict[ChangeKind, float] = {}
    for change in sorted(changes, key=lambda change: change.at):
        if change.kind not in SILENT and change.at - last.get(change.kind, float("-inf")) > TOGETHER:
            found.append(change)
        last[change.kind] = change.at
    return found


# --- all of it --------------------------------------------------------------------------------------------------------

LEAST_KEPT, KEPT_OF_ALL = 6, 8192
"""Samples kept of a GPU or rank: at least the former; the latter divided by the number of nodes. Each takes 0.6 KB."""


@dataclass(slots=True)
class JobState:
    """The state of a job."""

    started: float = 0.0
    interval: float = 1.0
    """Seconds between two ticks of a node."""
    nodes: dict[str, Node] = field(default_factory=dict)
    """By name; :meth:`node` adds new ones."""
    samples_kept: int = MOST_KEPT
    """Samples kept of one GPU or rank: fewer in a large job."""
    changes: Kept[Change] = field(default_factory=Kept)
    """Owned by their kind, so that many changes of one kind do not push out another kind."""
    log_lines: Kept[LogLines] = field(default_factory=Kept)
    """(node, lines) in order of arrival."""
    events: Kept[LogEvent] = field(default_factory=Kept)
    """(node, event) with times on this machine's clock."""
    progress: dict[tuple[str, str, int], CommProgress] = field(default_factory=dict)
    """By (node, comm, rank in comm)."""
    stacks: deque[tuple[str, StackDump]] = field(default_factory=lambda: deque(maxlen=65_536))
    recorders: dict[int, RecorderDump] = field(default_factory=dict)
    ras: deque[Timed[RasReport]] = field(default_factory=lambda: deque(maxlen=16))

    @property
    def untold(self) -> float:
        """Seconds by which a node's samples may be older than in a job that is sampled each second."""
        return max(0.0, self.interval - 1.0)

    def node(self, name: str) -> Node:
        """The state of a node, created when first named."""
        known = self.nodes.get(name)
        if known is None:
            known = self.nodes[name] = Node(name, "connecting")
            self.samples_kept = max(LEAST_KEPT, min(MOST_KEPT, KEPT_OF_ALL // len(self.nodes)))
        return known

    def note(self, at: float, text: str, kind: ChangeKind = "other", node: str = "") -> None:
        """Add a change to the timeline."""
        self.changes.add(kind, Change(at, node, text, kind))


@dataclass(slots=True)
class SampleContext:
    """The job, node and time of the samples of one flush."""

    job: JobState
    node: Node
    at: float
    """Time of the flush on this machine's clock; the times inside its samples are already on this clock."""

    def note(self, text: str, kind: ChangeKind = "other") -> None:
        """Add a change on this node to the timeline."""
        self.job.note(self.at, text, kind, self.node.name)

    def rank(self, pid: int | None) -> Rank | None:
        """The rank of a process on this node."""
        return None if pid is None else self.node.ranks.get(pid)


THINGS = ("ranks", "gpus", "ports", "interfaces", "log_files", "steps", "readings", "sources", "faults",
          "launchers")  # fmt: skip
MOST_THINGS = 4096
"""Most things of one kind on one node; more than any node has."""


def surplus(node: Node) -> str:
    """Drop the newest things beyond :data:`MOST_THINGS` on a node; returns a text about them, or an empty one."""
    much = [name for name in THINGS if len(getattr(node, name)) > MOST_THINGS]
    for name in much:
        things = getattr(node, name)
        for key in list(things)[MOST_THINGS:]:
            del things[key]
        node.roster += 1
    return ", ".join(f"{name.replace('_', ' ')} beyond {MOST_THINGS:,}" for name in much)
