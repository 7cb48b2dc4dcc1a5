"""Flight recorder dumps of many ranks put side by side: who did not join, who joined something else, who waits in vain.

Works on any number of dumps: a rank without one is named as such, never an error. Who waits for whom comes from
:mod:`~hangtop.diagnosis.groups.edges`; here it is followed to its ends, and told per collective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from collectors.samples.collectives import Collective, RecorderDump
from hangtop.diagnosis.groups.edges import Recorded, Waits, by_recorders, ends_together, recorded, spread
from hangtop.diagnosis.groups.ends import ends_of, outvoted
from hangtop.diagnosis.groups.groups import Group
from hangtop.diagnosis.groups.pairs import passed_before
from hangtop.diagnosis.groups.program import Program
from hangtop.diagnosis.groups.tracks import closes
from hangtop.diagnosis.groups.vote import Vote, vote

SAME_INPUT = frozenset(
    {
        "all_reduce", "allreduce", "broadcast", "reduce", "reduce_scatter", "_reduce_scatter_base", "all_gather",
        "_all_gather_base", "all_gather_into_tensor", "reduce_scatter_tensor", "_allgather_base",
    }
)  # fmt: skip
"""Operations whose input must have the same number of elements on every rank. The all_to_all family may differ."""
WITHOUT_SIZE = frozenset({"barrier"})
_Read: TypeAlias = "Callable[[Collective], str]"


@dataclass(frozen=True, slots=True)
class Differs:
    """Ranks that joined one collective with different operations, sizes or types.

    ``accused`` are the odd ones; where the votes are even, all of them, unless other groups tell who is right.
    """

    group: Group
    seq: int
    what: Literal["op", "size", "dtype"]
    counted: Vote[str]
    op: str
    accused: tuple[int, ...]
    created: float

    @property
    def tied(self) -> bool:
        """Nothing tells which side is wrong."""
        return self.counted.tied and set(self.accused) == set(self.counted.odd_ranks)


@dataclass(frozen=True, slots=True)
class NotJoined:
    """A collective that some ranks wait in and others have not launched. ``finished`` is the last that those did."""

    group: Group
    seq: int
    op: str
    waiting: tuple[int, ...]
    absent: tuple[int, ...]
    undumped: tuple[int, ...]
    """Members of the group without a dump."""
    finished: int | None
    age: float | None
    """Seconds that the oldest of those who wait had waited when the last dump was written."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The first operation that one rank has open although other members of the group have completed it.

    All have joined an all_reduce that one member has completed: the GPU of a member that has it open stands still.
    """

    rank: int
    group: Group
    seq: int
    op: str
    completed: tuple[int, ...]
    """The members that have completed it."""


@dataclass(frozen=True, slots=True)
class Matched:
    """What the dumps say together. ``culprits`` are the ends of all waits, or those who strayed in a circle of them."""

    given: Recorded
    edges: tuple[Waits, ...]
    differs: tuple[Differs, ...]
    """The first of every group, the earliest first."""
    not_joined: tuple[NotJoined, ...]
    stalled: tuple[NotJoined, ...]
    """Collectives that all members joined and nobody completed (``absent`` is empty)."""
    circle: tuple[int, ...]
    """Ranks that wait for one another in sends and receives whose halves are all known."""
    culprits: tuple[int, ...]
    torn: bool
    """The culprits are two that contradict each other, and one of them is right."""
    undumped: tuple[int, ...]
    """Ranks without a dump that the others wait for, where no other is to blame."""
    dumped: tuple[int, ...]
    unfinished: tuple[Unfinished, ...] = ()
    """Where a rank has open what its peers have completed, one a rank."""

    @property
    def timed(self) -> bool:
        """Whether any recorder tells that a GPU has begun an operation: else all that is open was only scheduled."""
        dumps = self.given.dumps.values()
        return any(entry.state == "started" for dump in dumps for entry in dump.collectives)


def match(dumps: Iterable[RecorderDump]) -> Matched:
    """Match the collectives of all dumps, per group and sequence number, and follow who waits for whom.

    Two culprits of a circle over several groups are two sides of which nothing tells the wrong one (``torn``).
    """
    given = recorded(dumps)
    program = Program(given)
    edges = by_recorders(given)
    stops = [stop for group in sorted(given.tracks, key=_order) if (stop := _stop(given, group))]
    differs = [found for group in sorted(given.tracks, key=_order) if (found := _differs(given, group, program))]
    busy = {rank for track in given.tracks.values() for rank, own in track.items() if own.unfinished}
    busy |= {met.half.rank for met in given.met}
    ends = ends_of(edges, busy, given.dumps.keys())
    of_pairs = {edge.waiter for edge in edges if edge.certain and edge.operation in ("send", "recv")}
    of_groups = {edge.waiter for edge in edges if edge.certain} - of_pairs
    unfinished = tuple(_unfinished(given))
    culprits = ends.ranks or tuple(one.rank for one in unfinished) or program.strayed() or outvoted(edges)
    circle = ends.circle if not of_groups & set(ends.circle) and not culprits else ()
    if passed_before(given.courses, circle, given.met):
        circle = ()
    differing = {found.group for found in differs}
    return Matched(
        given=given,
        edges=edges,
        differs=tuple(sorted(differs, key=lambda found: (found.created, _order(found.group)))),
        not_joined=tuple(stop for stop in stops if stop.absent or stop.undumped),
        stalled=tuple(
            stop
            for stop in stops
            if not stop.absent
            and not stop.undumped
            and stop.group not in differing
            and _nobody_left(given, stop, edges)
        ),
        circle=circle,
        culprits=culprits,
        torn=not ends.ranks and not unfinished and len(culprits) > 1,
        undumped=ends.undumped,
        dumped=tuple(sorted(given.dumps)),
        unfinished=() if ends.ranks else unfinished,
    )


def _unfinished(given: Recorded) -> Iterator[Unfinished]:
    """Ranks whose GPU has not finished what all others of a group have, in the order of their numbers."""
    for rank, course in sorted(given.courses.items()):
        for group, track in course.tracks.items():
            first = min(track.unfinished, default=None)
            if first is None or not ends_together(track.entries[first]):
                continue
            others = {other: own for other, own in given.tracks[group].items() if other != rank}
            completed = tuple(sorted(other for other, own in others.items() if own.completed >= first))
            if completed:
                yield Unfinished(rank, group, first, track.entries[first].op, completed)
                break


def _order(group: Group) -> tuple[bool, int, str, tuple[int, ...]]:
    return not group.whole, len(group.name), group.name, group.ranks


def _stop(given: Recorded, group: Group) -> NotJoined | None:
    """Find the first collective of a group that somebody launched and nobody can finish."""
    own = given.tracks[group]
    open_seqs = {rank: min(track.unfinished) for rank, track in own.items() if track.unfinished}
    if not open_seqs:
        return None
    seq = min(open_seqs.values())
    waiting = tuple(sorted(rank for rank, first in open_seqs.items() if first == seq))
    absent, undumped = given.absent(group, seq)
    if absent and spread(given, group, seq):
        absent = ()
    finished = max((own[rank].completed for rank in absent if rank in own), default=None)
    written = max((dump.at for dump in given.dumps.values() if dump.at is not None), default=None)
    created = [at for rank in waiting if (at := own[rank].entries[seq].created) is not None]
    ops = vote({rank: own[rank].entries[seq].op for rank in waiting})
    op = ops.usual if ops else own[waiting[0]].entries[seq].op
    age = written - min(created) if written is not None and created else None
    return NotJoined(group, seq, op, waiting, absent, undumped, finished, age)


def _nobody_left(given: Recorded, stop: NotJoined, edges: Sequence[Waits]) -> bool:
    """Whether all members stand in it, and none of them behind something else: a rank that is through moved data."""
    return set(stop.waiting) == given.members(stop.group) and not {edge.waiter for edge in edges} & set(stop.waiting)


def _differs(given: Recorded, group: Group, program: Program) -> Differs | None:
    """Find the first unfinished collective that ranks of a group joined in different ways."""
    own = given.tracks[group]
    for seq in sorted({seq for track in own.values() for seq in track.unfinished}):
        entries = {rank: track.entries[seq] for rank, track in own.items() if seq in track.entries}
        for what, read in _readers(entries):
            values = {rank: read(entry) for rank, entry in entries.items()}
            counted = vote(values)
            if counted is None or not counted.odd:
                continue
            accused = counted.odd_ranks
            if counted.tied:
                right = program.right_one(group, seq, values, read)
                accused = tuple(rank for rank in accused if values[rank] != right)
            created = min((entry.created for entry in entries.values() if entry.created is not None), default=0.0)
            op = counted.usual if what == "op" else next(iter(entries.values())).op
            return Differs(group, seq, what, counted, op, accused, created)
    return None


def _readers(entries: Mapping[int, Collective]) -> Sequence[tuple[Literal["op", "dtype", "size"], _Read]]:
    """What may be compared of these entries: of batches, closed on some ranks and not yet on others, nothing."""
    closed = [closes(entry) for entry in entries.values()]
    if any(closed) and not all(closed):
        return ()
    ops = {entry.op for entry in entries.values()}
    if len(ops) > 1:
        return (("op", _op),)
    if ops & WITHOUT_SIZE or any(closed):
        return ()
    types: tuple[Literal["dtype"], _Read] = ("dtype", _types)
    return (types, ("size", _sizes)) if ops <= SAME_INPUT else (types,)


def odd_sizes(given: Recorded, stop: NotJoined) -> Vote[str] | None:
    """Who gave an operation whose sizes may differ another size than all others, which gave it one; None where none."""
    if stop.op in SAME_INPUT or stop.op in WITHOUT_SIZE:
        return None
    tracks = given.tracks[stop.group]
    counted = vote({rank: _sizes(tracks[rank].entries[stop.seq]) for rank in stop.waiting})
    return counted if counted is not None and len(counted.odd) == 1 and not counted.tied else None


def _op(entry: Collective) -> str:
    return entry.op


def _types(entry: Collective) -> str:
    return ",".join(entry.input_dtypes)


def _sizes(entry: Collective) -> str:
    return shape(entry.input_sizes)


def shape(sizes: Sequence[Sequence[int]]) -> str:
    """``4096``, ``2×3, 5``; a tensor without dimensions is ``scalar``."""
    return ", ".join("×".join(map(str, size)) or "scalar" for size in sizes)
