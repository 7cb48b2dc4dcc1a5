"""How far each rank got in each of its groups, and which of its operations are still open, by its dump.

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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from collectors.samples.collectives import Collective, RecorderDump
from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.progress import Operation

_CLOSING = re.compile(r"coalesced|[A-Z_]+_coalesced")
"""``coalesced``, ``ALLGATHER_coalesced``: the end of a batch; ``allreduce_coalesced`` is an operation of its own."""
_ENDS_TOGETHER = ("all", "_all", "reduce_scatter", "_reduce_scatter", "barrier")
"""Beginnings of the operations that end on no rank before every rank has joined."""
WITHOUT_SIZE = frozenset({"barrier"})


@dataclass(frozen=True, slots=True)
class P2POp:
    """One rank's side of a send and receive. ``peer`` is a global rank; None where it is not known."""

    rank: int
    peer: int | None
    sends: bool
    group: Group
    entry: Collective
    place: int
    """Place among everything that this rank launched, over all groups."""
    condition: Literal["open", "done", "unknown"]
    step: int
    """Place of its batch's end, or of the operation itself where it is in none: what the host launched at once."""


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """One rank in one group: its collectives by sequence number, and how far it got."""

    entries: Mapping[int, Collective]
    places: Mapping[int, int]
    """Place of each among everything that this rank launched, over all groups."""
    enqueued: int
    completed: int
    unfinished: frozenset[int]
    """Sequence numbers that this rank launched and has not finished."""


@dataclass(slots=True)
class LaunchHistory:
    """Everything that one rank launched, as far as its dump goes back."""

    dump: RecorderDump
    groups: dict[Group, GroupHistory] = field(default_factory=dict)
    p2p: list[P2POp] = field(default_factory=list)
    partial: bool = False
    """A dump of active entries alone: what it does not list may be done."""

    @property
    def whole(self) -> bool:
        """Whether the dump goes back to the rank's first operation."""
        return bool(self.dump.collectives) and self.dump.collectives[0].record == 0


def is_done(entry: Collective) -> bool:
    """True for an operation that this rank has finished."""
    return entry.retired or entry.state == "completed"


def closes(entry: Collective) -> bool:
    """True for the entry that ends a batch, and has its state."""
    return _CLOSING.fullmatch(entry.op) is not None


def ends_together(name: str) -> bool:
    """Whether a collective ends nowhere before all have joined; a broadcast ends at its root before."""
    return name.lower().startswith(_ENDS_TOGETHER)


def operation_of(entry: Collective, source: str) -> Operation:
    """An entry as an operation; type and size only where they may be compared."""
    dtype = size = ""
    if entry.op not in WITHOUT_SIZE and not closes(entry):
        dtype, size = ",".join(entry.input_dtypes), shape(entry.input_sizes)
    return Operation(entry.op, entry.seq, source, entry.created, dtype, size)


def shape(sizes: Sequence[Sequence[int]]) -> str:
    """``4096``, ``2×3, 5``; a tensor without dimensions is ``scalar``."""
    return ", ".join("×".join(map(str, size)) or "scalar" for size in sizes)


def histories(dumps: Collection[RecorderDump]) -> dict[int, LaunchHistory]:
    """Every rank's history through its groups. One dump a rank.

    Dumps are of active entries alone where nothing in them is done, and their status says that something was.
    """
    configured: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for dump in dumps:
        for name, ranks in dump.groups.items():
            configured[name].add(tuple(ranks))
    listed = any(is_done(entry) for dump in dumps for entry in dump.collectives)
    partial = not listed and any((status.last_completed or 0) > 0 for dump in dumps for status in dump.status)
    return {dump.rank: _history(dump, configured, partial) for dump in dumps}


def _group(dump: RecorderDump, entry: Collective, configured: Mapping[str, Collection[tuple[int, ...]]]) -> Group:
    """The group that a rank means: by its own configuration, else by that of another member."""
    ranks = tuple(dump.groups.get(entry.group, ()))
    candidates = [each for each in configured.get(entry.group, ()) if dump.rank in each]
    return Group(entry.group, ranks or (candidates[0] if len(candidates) == 1 else ()), entry.group_description)


def _history(dump: RecorderDump, configured: Mapping[str, Collection[tuple[int, ...]]], partial: bool) -> LaunchHistory:
    found = LaunchHistory(dump, partial=partial)
    collectives: dict[str, dict[int, tuple[int, Collective]]] = defaultdict(dict)
    batches: dict[tuple[str, int], list[tuple[int, Collective]]] = defaultdict(list)
    for place, entry in enumerate(dump.collectives):
        if entry.p2p:
            number = entry.seq if entry.seq >= 0 else -1 - place  # without a number it stands alone
            batches[entry.group, number].append((place, entry))
        else:
            collectives[entry.group][entry.seq] = place, entry  # of a batch the last, which closes it
    statuses = {status.group: status for status in dump.status}
    for name, placed in collectives.items():
        entries = {seq: entry for seq, (_, entry) in placed.items()}
        done = {seq for seq, entry in entries.items() if is_done(entry)}
        status = statuses.get(name)
        completed = max([-1 if status is None or status.last_completed is None else status.last_completed, *done])
        enqueued = -1 if status is None or status.last_enqueued is None else status.last_enqueued
        found.groups[_group(dump, next(iter(entries.values())), configured)] = GroupHistory(
            entries=entries,
            places={seq: place for seq, (place, _) in placed.items()},
            enqueued=max(*entries, enqueued),
            completed=completed,
            unfinished=frozenset(seq for seq in entries if seq > completed and seq not in done),
        )
    for members in batches.values():
        found.p2p += _p2p_ops(dump.rank, _group(dump, members[0][1], configured), members, partial)
    found.p2p.sort(key=lambda op: op.place)
    return found


def _p2p_ops(rank: int, group: Group, members: list[tuple[int, Collective]], partial: bool) -> list[P2POp]:
    """Sends and receives that were launched together: with their closing entry's condition, else with their own."""
    closing = next((entry for _, entry in members if closes(entry)), None)
    made = []
    for place, entry in members:
        if closes(entry):
            continue
        condition: Literal["open", "done", "unknown"] = "done" if is_done(closing or entry) else "open"
        if closing is None and partial and entry.state != "started":
            condition = "unknown"  # what closed its batch may be done, and so left out
        peer = group.rank_at(entry.peer)
        if entry.own is not None and group.rank_at(entry.own) != rank:
            peer = None  # these are not the ranks that the name counts in
        sends = entry.op.lstrip("i").startswith("send")
        made.append(P2POp(rank, peer, sends, group, entry, place, condition, members[-1][0]))
    return made
