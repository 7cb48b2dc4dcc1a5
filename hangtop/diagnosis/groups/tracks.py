"""How far each rank got in each of its groups, and which of its operations are still open.

Three things keep the entries of a dump from meaning what they seem to say:

- gloo's state stays ``scheduled`` for ever, and NCCL's goes from ``scheduled`` to ``completed`` unless events are timed
  (TORCH_NCCL_ENABLE_TIMING): what is not done was launched, and whether a GPU has begun it is not known.
- Operations of a batch (``batch_isend_irecv``, a coalescing manager) never close; the entry that closes the batch does,
  which has the same group and sequence number.
- A dump of active entries alone leaves out what is done, also what closed a batch.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from collectors.samples.collectives import Collective, RecorderDump
from hangtop.diagnosis.groups.groups import Group, Groups

_CLOSING = re.compile(r"coalesced|[A-Z_]+_coalesced")
"""``coalesced``, ``ALLGATHER_coalesced``: the end of a batch; ``allreduce_coalesced`` is an operation of its own."""

Condition = Literal["open", "done", "unknown"]


@dataclass(frozen=True, slots=True)
class Half:
    """One rank's side of a send and receive. ``peer`` is a global rank; None where it is not known."""

    rank: int
    peer: int | None
    sends: bool
    group: Group
    entry: Collective
    place: int
    """Place among everything that this rank launched, over all groups."""
    condition: Condition
    batch: int
    """How many halves were launched together with it, itself included."""
    step: int
    """Number of the batch, or of the operation itself where it is in none: what the host launched at once."""

    @property
    def label(self) -> str:
        """``send`` or ``recv``."""
        return "send" if self.sends else "recv"


@dataclass(frozen=True, slots=True)
class Track:
    """One rank in one group: its collectives by sequence number, and how far it got."""

    entries: Mapping[int, Collective]
    places: Mapping[int, int]
    """Place of each among everything that this rank launched, over all groups."""
    enqueued: int
    completed: int
    unfinished: frozenset[int]
    """Sequence numbers that this rank launched and has not finished."""


@dataclass(slots=True)
class Course:
    """Everything that one rank launched, as far as its dump goes back."""

    rank: int
    source: str
    at: float | None
    tracks: dict[Group, Track] = field(default_factory=dict)
    halves: list[Half] = field(default_factory=list)
    last: int = -1
    """Place of the last operation that it launched."""
    whole: bool = False
    """The dump goes back to the rank's first operation."""
    partial: bool = False
    """A dump of active entries alone: what it does not list may be done."""


def is_done(entry: Collective) -> bool:
    """True for an operation that this rank has finished."""
    return entry.retired or entry.state == "completed"


def closes(entry: Collective) -> bool:
    """True for the entry that ends a batch, and has its state."""
    return _CLOSING.fullmatch(entry.op) is not None


def newest(dumps: Iterable[RecorderDump]) -> dict[int, RecorderDump]:
    """The newest dump of every rank; of two jobs' dumps in different folders, those of one job alone.

    Two runs are told by their folders: where ranks have dumps in several of them, the folder that was written last has
    the run. Dumps of different nodes have no rank twice, and stay together.
    """
    ordered = sorted(dumps, key=lambda dump: (dump.rank, dump.at or 0.0, dump.source))
    folders: dict[str, dict[int, RecorderDump]] = defaultdict(dict)
    for dump in ordered:
        folders[dump.source.rpartition("/")[0]][dump.rank] = dump
    kept: dict[int, RecorderDump] = {}
    by_age = sorted(folders.items(), key=lambda item: (max(d.at or 0.0 for d in item[1].values()), item[0]))
    for _, own in reversed(by_age):
        if not kept.keys() & own.keys():
            kept.update(own)
    return dict(sorted(kept.items()))


def courses(dumps: Mapping[int, RecorderDump], groups: Groups) -> dict[int, Course]:
    """Every rank's course through its groups."""
    partial = active_only(dumps.values())
    return {rank: _course(dump, groups, partial) for rank, dump in dumps.items()}


def active_only(dumps: Collection[RecorderDump]) -> bool:
    """Whether dumps list active entries alone: nothing in them is done, and their status says that something was."""
    listed = any(is_done(entry) for dump in dumps for entry in dump.collectives)
    return not listed and any((status.last_completed or 0) > 0 for dump in dumps for status in dump.status)


def _course(dump: RecorderDump, groups: Groups, partial: bool) -> Course:
    entries = dump.collectives
    told = {status.group: status for status in dump.status}
    course = Course(dump.rank, dump.source, dump.at, whole=bool(entries) and entries[0].record == 0, partial=partial)
    course.last = len(entries) - 1
    collectives: dict[str, dict[int, tuple[int, Collective]]] = defaultdict(dict)
    batches: dict[tuple[str, int], list[tuple[int, Collective]]] = defaultdict(list)
    for place, entry in enumerate(entries):
        if entry.p2p:
            number = entry.seq if entry.seq >= 0 else -1 - place  # without a number it stands alone
            batches[entry.group, number].append((place, entry))
        else:
            collectives[entry.group][entry.seq] = place, entry  # of a batch the last, which closes it
    for name, placed in collectives.items():
        status = told.get(name)
        enqueued = status.last_enqueued if status and status.last_enqueued is not None else -1
        completed = status.last_completed if status and status.last_completed is not None else -1
        done = {seq for seq, (_, entry) in placed.items() if is_done(entry)}
        completed = max([completed, *done])
        course.tracks[groups.of(dump.rank, name)] = Track(
            entries={seq: entry for seq, (_, entry) in placed.items()},
            places={seq: place for seq, (place, _) in placed.items()},
            enqueued=max(*placed, enqueued),
            completed=completed,
            unfinished=frozenset(seq for seq in placed if seq > completed and seq not in done),
        )
    for (name, _), members in batches.items():
        course.halves += _halves(dump, groups.of(dump.rank, name), members, partial)
    course.halves.sort(key=lambda half: half.place)
    return course


def _halves(dump: RecorderDump, group: Group, members: list[tuple[int, Collective]], partial: bool) -> list[Half]:
    """Sends and receives that were launched together: with their closing entry's condition, else with their own."""
    closing = next((entry for _, entry in members if closes(entry)), None)
    sides = [(place, entry) for place, entry in members if not closes(entry)]
    step = members[-1][0]
    made = []
    for place, entry in sides:
        condition: Condition = "done" if is_done(closing or entry) else "open"
        if closing is None and partial and entry.state != "started":
            condition = "unknown"  # what closed its batch may be done, and so left out
        peer = group.rank_at(entry.peer)
        if peer is not None and entry.own is not None and group.rank_at(entry.own) != dump.rank:
            peer = None  # these are not the ranks that the name counts in
        made.append(
            Half(dump.rank, peer, entry.op.lstrip("i").startswith("send"), group, entry, place, condition,
                 len(sides), step)
        )  # fmt: skip
    return made
