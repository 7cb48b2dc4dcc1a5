"""What each rank launched in each of its groups, by the newest flight recorder dump of every rank.

Two traps in the entries of a dump:

- gloo's state stays ``scheduled``, and NCCL's goes from ``scheduled`` to ``completed`` unless events are timed
  (TORCH_NCCL_ENABLE_TIMING): an open operation was launched, but whether a GPU has begun it is unknown.
- Operations of a batch (``batch_isend_irecv``, a coalescing manager) never complete; the entry that closes the batch
  does, with the same group and sequence number.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collectors.samples.collectives import Collective, RecorderDump
from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.progress import Operation, WaitEdge

_CLOSING = re.compile(r"coalesced|[A-Z_]+_coalesced")
"""``coalesced``, ``ALLGATHER_coalesced``: the end of a batch; ``allreduce_coalesced`` is an operation of its own."""


@dataclass(frozen=True, slots=True)
class RankInGroup:
    """Collectives that one rank launched in one group."""

    entries: Mapping[int, Collective]
    """By sequence number."""
    places: Mapping[int, int]
    """Place of each in the order in which this rank launched its operations, over all groups."""
    source: str
    enqueued: int
    completed: int
    unfinished: tuple[int, ...]
    """Sequence numbers that this rank launched and has not finished, in ascending order."""

    def operation(self, seq: int) -> Operation:
        """An entry as an operation; with type and size only if these can be compared."""
        entry, dtype, size = self.entries[seq], "", ""
        if entry.op != "barrier" and not closes(entry):
            dtype = ",".join(entry.input_dtypes)
            size = ", ".join("×".join(map(str, shape)) or "scalar" for shape in entry.input_sizes)
        return Operation(entry.op, seq, self.source, entry.created, dtype, size)


@dataclass(frozen=True, slots=True)
class P2POp:
    """One rank's side of a send and receive. ``peer`` is a global rank; None if unknown."""

    rank: int
    peer: int | None
    sends: bool
    group: Group
    entry: Collective
    open: bool
    """It is not known to be done."""
    step: int
    """Place of its batch's last operation, or its own place outside a batch: equal for operations launched at once."""

    @property
    def way(self) -> tuple[Group, int | None, int | None]:
        """Group, sender and receiver."""
        return (self.group, self.rank, self.peer) if self.sends else (self.group, self.peer, self.rank)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The dumps, one per rank, and their entries by group."""

    dumps: Mapping[int, RecorderDump]
    groups: Mapping[Group, Mapping[int, RankInGroup]]
    p2p: Sequence[P2POp]
    """By rank, in the order of launch."""


def is_done(entry: Collective) -> bool:
    """True for an operation that this rank has finished."""
    return entry.retired or entry.state == "completed"


def closes(entry: Collective) -> bool:
    """True for the entry that ends a batch, and carries the batch's state."""
    return _CLOSING.fullmatch(entry.op) is not None


def recorded(dumps: Iterable[RecorderDump]) -> Recorded:
    """Read the newest dump of each rank."""
    newest = {dump.rank: dump for dump in sorted(dumps, key=lambda dump: (dump.rank, dump.at or 0.0, dump.source))}
    groups: dict[Group, dict[int, RankInGroup]] = defaultdict(dict)
    p2p: list[P2POp] = []
    for rank, dump in newest.items():
        collectives: dict[Group, dict[int, tuple[int, Collective]]] = defaultdict(dict)
        batches: dict[tuple[Group, int], list[tuple[int, Collective]]] = defaultdict(list)
        for place, entry in enumerate(dump.collectives):
            group = Group(entry.group, tuple(dump.groups.get(entry.group, ())), entry.group_description)
            if entry.p2p:
                number = entry.seq if entry.seq >= 0 else -1 - place  # without a number it stands alone
                batches[group, number].append((place, entry))
            else:
                collectives[group][entry.seq] = place, entry  # the last entry closes a batch
        for group, placed in collectives.items():
            groups[group][rank] = _rank_in_group(dump, placed)
        launched = [pair for (group, _), batch in batches.items() for pair in _p2p_ops(rank, group, batch)]
        p2p += [op for _, op in sorted(launched, key=lambda pair: pair[0])]
    return Recorded(newest, groups, p2p)


def _rank_in_group(dump: RecorderDump, placed: Mapping[int, tuple[int, Collective]]) -> RankInGroup:
    entries = {seq: entry for seq, (_, entry) in placed.items()}
    name = next(iter(entries.values())).group
    enqueued, completed = (-1 if number is None else number for number in dump.status.get(name, (None, None)))
    done = {seq for seq, entry in entries.items() if is_done(entry)}
    completed = max([completed, *done])
    return RankInGroup(
        entries=entries,
        places={seq: place for seq, (place, _) in placed.items()},
        source=dump.source,
        enqueued=max([enqueued, *entries]),
        completed=completed,
        unfinished=tuple(sorted(seq for seq in entries if seq > completed and seq not in done)),
    )


def _p2p_ops(rank: int, group: Group, batch: Sequence[tuple[int, Collective]]) -> Iterator[tuple[int, P2POp]]:
    """Sends and receives of one batch; the closing entry, or else their own, shows whether they are done."""
    closing = next((entry for _, entry in batch if closes(entry)), None)
    for place, entry in batch:
        if not closes(entry):
            sends = entry.op.lstrip("i").startswith("send")
            peer, is_open = group.rank_at(entry.peer), not is_done(closing or entry)
            yield place, P2POp(rank, peer, sends, group, entry, is_open, batch[-1][0])


# --- sends and receives of all ranks ------------------------------------------------------------------------------


def p2p_edges(launched: Recorded) -> Iterator[WaitEdge]:
    """The waits of each rank's first open sends and receives in a group that lack a counterpart.

    The k-th open send from A to B in a group meets the k-th open receive at B from A. Sequence numbers do not give k
    (they count all of a rank's batches). Waits in a batch with several peers are not certain.
    """
    sides: dict[tuple[Group, int | None, int | None], dict[bool, list[P2POp]]] = defaultdict(
        lambda: {True: [], False: []}
    )
    peers: dict[tuple[int, int], set[int | None]] = defaultdict(set)
    for op in launched.p2p:
        peers[op.rank, op.step].add(op.peer)
        if op.open and op.peer is not None:
            sides[op.way][op.sends].append(op)
    first: dict[tuple[int, Group], int] = {}
    for op in launched.p2p:
        if not op.open or op.peer is None or first.setdefault((op.rank, op.group), op.step) != op.step:
            continue
        mine, others = sides[op.way][op.sends], sides[op.way][not op.sends]
        alone = len(peers[op.rank, op.step]) == 1  # with several peers the counterpart may be done
        if mine.index(op) >= len(others):
            dumped = op.peer in launched.dumps
            yield WaitEdge(
                op.rank, (op.peer,), op.group.label, "send" if op.sends else "recv", op.entry.seq,
                dumped and alone, op.entry.created, not dumped,
            )  # fmt: skip
