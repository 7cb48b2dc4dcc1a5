"""The latest state of everything, as streams write it and screens draw it.

One writer (the session's event loop), any number of readers in the same thread. Readers never change anything. What
moves is kept for about a minute: what must be kept for longer is a recording's business.
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
from hangtop.diagnosis.looks import MOST_LOOKS, Look
from hangtop.diagnosis.node import Node, Rank

T = TypeVar("T")

MEMORY = 32 << 20
"""About how many bytes the items of one kind may take; each takes at least 1000."""


def size_of(item: object) -> int:
    """About how many bytes of memory an event or lines of a log take."""
    if isinstance(item, LogEvent):
        return 1000 + len(item.text) + sum(len(str(value)) + 100 for value in item.data.values())
    return 1000 + sum(len(line) + 60 for line in item.lines) if isinstance(item, LogLines) else 1000


class Kept(Generic[T]):
    """Items of several owners as they came; where there are too many, the owner of the most loses its older half."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory = memory
        self._items: deque[tuple[int, str, T]] = deque()
        """Each with its number since the beginning, and its owner."""
        self._bytes: Counter[str] = Counter()
        self._held = 0
        self.total = 0
        """How many there were since the beginning: readers keep their place by it."""

    def add(self, owner: str, item: T) -> None:
        """Add one."""
        self._items.append((self.total, owner, item))
        self.total += 1
        self._count(owner, size_of(item))
        if self._held > self._memory:
            largest = max(self._bytes, key=self._bytes.__getitem__)
            own = [(number, item) for number, owner, item in self._items if owner == largest]
            gone = dict(own[: (len(own) + 1) // 2])
            self._items = deque(entry for entry in self._items if entry[0] not in gone)
            self._count(largest, -sum(map(size_of, gone.values())))

    def _count(self, owner: str, size: int) -> None:
        self._bytes[owner] += size
        self._held += size

    def since(self, total: int) -> list[tuple[str, T]]:
        """Those that came after so many, in order, each with its owner, as far as they are kept."""
        later = [*takewhile(lambda entry: entry[0] >= total, reversed(self._items))]
        return [(owner, item) for _, owner, item in reversed(later)]

    def only(self, wanted: Callable[[T], bool]) -> Kept[T]:
        """Those of which something is true."""
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
"""What happened: to a rank, a node, a source of samples, a GPU, a port or the kernel; what somebody asked for; what a
verdict says from then on; ``hangtop``: what matters to hangtop alone."""


@dataclass(slots=True)
class Change:
    """Something that happened, for the overview and the timeline."""

    at: float
    node: str
    text: str
    kind: ChangeKind = "other"


TOGETHER = 5.0
"""Seconds within which the same thing happened once."""
SILENT: frozenset[ChangeKind] = frozenset({"hangtop", "other", "starting", "unknown"})
"""What is no mark."""


def marks(changes: Iterable[Change]) -> list[Change]:
    """What a timeline shows, the oldest first: of what happened several times on end, the first time."""
    found: list[Change] = []
    last: dict[ChangeKind, float] = {}
    for change in sorted(changes, key=lambda change: change.at):
        if change.kind not in SILENT and change.at - last.get(change.kind, float("-inf")) > TOGETHER:
            found.append(change)
        last[change.kind] = change.at
    return found


# --- all of it --------------------------------------------------------------------------------------------------------

LEAST_LOOKS, LOOKS_OF_ALL = 6, 8192
"""Looks at one GPU or rank that are kept in any job, and those at one of each node together: each takes 0.6 KB."""


@dataclass(slots=True)
class JobState:
    """The whole picture."""

    started: float = 0.0
    interval: float = 1.0
    """Seconds between two ticks of a node."""
    nodes: dict[str, Node] = field(default_factory=dict)
    """By name; :meth:`node` makes those that are new."""
    looks_kept: int = MOST_LOOKS
    """Looks at one GPU or rank that are kept: fewer in a large job."""
    changes: Kept[Change] = field(default_factory=Kept)
    """By kind, so that many of one push out none of another."""
    log_lines: Kept[LogLines] = field(default_factory=Kept)
    """(node, lines) as they came."""
    events: Kept[LogEvent] = field(default_factory=Kept)
    """(node, event) with times on this machine's clock."""
    progress: dict[tuple[str, str, int], CommProgress] = field(default_factory=dict)
    """By (node, comm, rank in it)."""
    stacks: deque[tuple[str, StackDump]] = field(default_factory=lambda: deque(maxlen=65_536))
    recorders: dict[int, RecorderDump] = field(default_factory=dict)
    ras: deque[Look[RasReport]] = field(default_factory=lambda: deque(maxlen=16))

    @property
    def untold(self) -> float:
        """Seconds up to now of which a node may not have told yet, beyond the one that is usual."""
        return max(0.0, self.interval - 1.0)

    def node(self, name: str) -> Node:
        """State of a node, made when it is first named."""
        known = self.nodes.get(name)
        if known is None:
            known = self.nodes[name] = Node(name, "connecting")
            self.looks_kept = max(LEAST_LOOKS, min(MOST_LOOKS, LOOKS_OF_ALL // len(self.nodes)))
        return known

    def note(self, at: float, text: str, kind: ChangeKind = "other", node: str = "") -> None:
        """Remember a change that people want to see."""
        self.changes.add(kind, Change(at, node, text, kind))


@dataclass(slots=True)
class SampleContext:
    """Where the samples of one flush belong."""

    job: JobState
    node: Node
    at: float
    """This machine's time of the flush; the times inside its samples are on this machine's clock already."""

    def note(self, text: str, kind: ChangeKind = "other") -> None:
        """Remember a change on this node that people want to see."""
        self.job.note(self.at, text, kind, self.node.name)

    def rank(self, pid: int | None) -> Rank | None:
        """The rank of a process on this node."""
        return None if pid is None else self.node.ranks.get(pid)


THINGS = ("ranks", "gpus", "ports", "interfaces", "log_files", "steps", "readings", "sources", "faults",
          "launchers")  # fmt: skip
MOST_THINGS = 4096
"""Things of one kind on one node; more than any node has."""


def surplus(node: Node) -> str:
    """Let go of what is too much on a node, the latest first; says what that was, empty for nothing."""
    much = [name for name in THINGS if len(getattr(node, name)) > MOST_THINGS]
    for name in much:
        things = getattr(node, name)
        for key in list(things)[MOST_THINGS:]:
            del things[key]
        node.roster += 1
    return ", ".join(f"{name.replace('_', ' ')} beyond {MOST_THINGS:,}" for name in much)
