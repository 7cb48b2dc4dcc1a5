"""Jobs of tensor × pipeline × data parallel ranks as Megatron groups them, run on paper until nothing moves any more.

Every rank has a program: one-forward-one-backward over its pipeline stage, tensor parallel all-reduces in each pass,
then the data parallel gradients, the tied embeddings of the first and last stage, and the norm over the model parallel
group. The host launches in order, up to a number of operations ahead of its GPU; the GPU runs its streams in order.
What a fault leaves standing is what flight recorders would dump.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Side = Literal["send", "recv"]


class Members(NamedTuple):
    """A process group: its name (torch counts them up over the whole job), description and global ranks."""

    name: str
    description: str
    ranks: tuple[int, ...]


class Op(NamedTuple):
    """One thing that the host does: launch a collective, launch halves together, or wait for its GPU."""

    what: Literal["collective", "pair", "sync"]
    group: Members | None = None
    name: str = ""
    elements: int = 0
    halves: tuple[tuple[Side, int], ...] = ()
    """Global ranks of the peers."""
    batched: bool = True


SYNC = Op("sync")


@dataclass
class Launch:
    """An operation in the queue of a GPU."""

    rank: int
    op: Op
    number: int
    """Its number among its group's collectives, or among the rank's batches in the group."""
    created: int
    after: tuple[Launch, ...] = ()
    """Launches of another stream that it waits for."""
    met: set[int] = field(default_factory=set)
    done: bool = False

    @property
    def ready(self) -> bool:
        """What it depends on is through."""
        return all(one.done for one in self.after)


@dataclass(frozen=True)
class Layout:
    """Sizes of the job; ranks count through tensor, then data, then pipeline parallel places."""

    tensor: int = 2
    pipeline: int = 2
    data: int = 1
    microbatches: int = 4
    layers: int = 2
    steps: int = 2
    overlap: bool = False
    """Gradients are reduced on a stream of their own."""
    syncs: bool = True
    """The host waits after every exchange between stages, as Megatron does unless told otherwise."""

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.tensor * self.pipeline * self.data

    def rank(self, t: int, d: int, p: int) -> int:
        """The global rank at a place."""
        return t + self.tensor * (d + self.data * p)

    def place(self, rank: int) -> tuple[int, int, int]:
        """Tensor, data and pipeline place of a rank."""
        return rank % self.tensor, rank // self.tensor % self.data, rank // (self.tensor * self.data)

    def groups(self) -> dict[str, dict[int, Members]]:
        """The group of each kind that each rank is in; groups of one rank are left out."""
        made: dict[str, dict[int, Members]] = defaultdict(dict)
        number = 0
        kinds: list[tuple[str, str, list[tuple[int, ...]]]] = [
            ("world", "default_pg", [tuple(range(self.world))]),
            ("dp", "DATA_PARALLEL_GROUP_WITH_CP", [
                tuple(self.rank(t, d, p) for d in range(self.data))
                for p in range(self.pipeline) for t in range(self.tensor)]),
            ("mp", "MODEL_PARALLEL_GROUP", [
                tuple(self.rank(t, d, p) for p in range(self.pipeline) for t in range(self.tensor))
                for d in range(self.data)]),
            ("tp", "TENSOR_MODEL_PARALLEL_GROUP", [
                tuple(self.rank(t, d, p) for t in range(self.tensor))
                for p in range(self.pipeline) for d in range(self.data)]),
            ("pp", "PIPELINE_MODEL_PARALLEL_GROUP", [
                tuple(self.rank(t, d, p) for p in range(self.pipeline))
                for d in range(self.data) for t in range(self.tensor)]),
            ("embedding", "EMBEDDING_GROUP", [
                tuple(self.rank(t, d, p) for p in sorted({0, self.pipeline - 1}))
                for d in range(self.data) for t in range(self.tensor)]),
        ]  # fmt: skip
        for kind, description, every in kinds:
            for ranks in every:
                group = Members(str(number), description, ranks)
                number += 1
                for rank in ranks if len(ranks) > 1 or kind == "world" else ():
                    made[kind][rank] = group
        return made


def programs(layout: Layout) -> dict[int, list[Op]]:
    """What every rank does."""
    groups = layout.groups()
    return {rank: _program(layout, groups, rank) for rank in range(layout.world)}


def _program(layout: Layout, groups: dict[str, dict[int, Members]], rank: int) -> list[Op]:
    t, d, p = layout.place(rank)
    before, after = (layout.rank(t, d, p + way) if 0 <= p + way < layout.pipeline else None for way in (-1, 1))
    own = {kind: members.get(rank) for kind, members in groups.items()}
    ops = [Op("collective", own["world"], "barrier"), SYNC]
    for _ in range(layout.steps):
        ops += _pipeline(
            layout, own.get("tp"), own.get("pp"), before, after, min(layout.pipeline - 1 - p, layout.microbatches)
        )
        ops += _closing(own, 4096 * (p + 1))
    return ops


def _pipeline(
    layout: Layout, tp: Members | None, pp: Members | None, before: int | None, after: int | None, warmup: int
) -> list[Op]:
    """All micro-batches of one step on one stage: some forward, then one forward one backward, then what is left."""
    forward, backward = ([Op("collective", tp, "all_reduce", n)] * (layout.layers if tp else 0) for n in (1024, 2048))

    def exchange(*halves: tuple[Side, int | None]) -> list[Op]:
        known = tuple((side, peer) for side, peer in halves if peer is not None)
        return [Op("pair", pp, elements=512, halves=known), *([SYNC] if layout.syncs else [])] if known else []

    steady = layout.microbatches - warmup
    ops: list[Op] = []
    for _ in range(warmup):
        ops += [*exchange(("recv", before)), *forward, *exchange(("send", after))]
    ops += exchange(("recv", before)) if steady else []
    for index in range(steady):
        more = before if index + 1 < steady else None
        ops += [*forward, *exchange(("send", after), ("recv", after))]
        ops += [*backward, *exchange(("send", before), ("recv", more))]
    for _ in range(warmup):
        ops += [*exchange(("recv", after)), *backward, *exchange(("send", before))]
    return ops


def _closing(own: dict[str, Members | None], shard: int) -> list[Op]:
    """The end of a step: gradients, tied embeddings, the norm, and the parameters back."""
    dp, embedding, mp = (own.get(kind) for kind in ("dp", "embedding", "mp"))
    return [
        *([Op("collective", dp, "_reduce_scatter_base", shard)] * 2 if dp else []),
        *([Op("collective", embedding, "all_reduce", 333)] if embedding else []),
        *([Op("collective", mp, "all_reduce", 1)] if mp else []),
        SYNC,
        *([Op("collective", dp, "_all_gather_base", shard)] if dp else []),
    ]


class Run:
    """The job, run until nothing moves."""

    def __init__(self, layout: Layout, program: dict[int, list[Op]], *, ahead: int = 64) -> None:
        self.layout, self.program, self.ahead = layout, program, ahead
        self.launched: dict[int, list[Launch]] = {rank: [] for rank in program}
        self._queues: dict[tuple[int, bool], list[Launch]] = {(r, side): [] for r in program for side in (False, True)}
        self._counts: dict[tuple[int, str, bool], int] = defaultdict(int)
        self._at = dict.fromkeys(program, 0)
        self.stuck: dict[int, int] = {}
        """Rank → place in its program that its host never gets past."""
        self.hung_gpus: set[int] = set()
        self.now = 0

    def go(self) -> None:
        """Run until the job is through or stands still."""
        while bool(sum(self._host(rank) for rank in self.program)) | self._gpus():
            self.now += 1

    @property
    def hung(self) -> bool:
        """Somebody did not come to the end."""
        return any(self._at[rank] < len(ops) for rank, ops in self.program.items()) or any(
            not one.done for own in self.launched.values() for one in own
        )

    def _host(self, rank: int) -> bool:
        at = self._at[rank]
        waiting = sum(len(self._queues[rank, side]) for side in (False, True))
        if at >= len(self.program[rank]) or self.stuck.get(rank) == at:
            return False
        op = self.program[rank][at]
        if op.what == "sync":
            if waiting:
                return False
        elif waiting >= self.ahead:
            return False
        else:
            self._launch(rank, op)
        self._at[rank] += 1
        return True

    def _launch(self, rank: int, op: Op) -> None:
        assert op.group is not None
        key = (rank, op.group.name, op.what == "pair")
        self._counts[key] += 1
        side = self.layout.overlap and op.group.description.startswith("DATA")
        after = tuple(self._queues[rank, False]) if side else ()
        launch = Launch(rank, op, self._counts[key], self.now, after)
        self.launched[rank].append(launch)
        self._queues[rank, side].append(launch)

    def _gpus(self) -> bool:
        heads = {
            (queue[0].rank, queue[0].op.group): queue[0]
            for (rank, _), queue in self._queues.items()
            if queue and queue[0].ready and rank not in self.hung_gpus
        }
        for launch in list(heads.values()):
            if launch.op.what == "collective":
                _meet_all(launch, heads)
            else:
                _meet_peers(launch, heads)
        moved = False
        for key, queue in self._queues.items():
            left = [one for one in queue if not one.done]
            moved |= len(left) < len(queue)
            self._queues[key] = left
        return moved


def _meet_all(launch: Launch, heads: dict[tuple[int, Members | None], Launch]) -> None:
    group = launch.op.group
    assert group is not None
    others = [heads.get((rank, group)) for rank in group.ranks]
    if all(other is not None and other.number == launch.number and other.op == launch.op for other in others):
        for other in others:
            if other is not None:
                other.done = True


def _meet_peers(launch: Launch, heads: dict[tuple[int, Members | None], Launch]) -> None:
    for index, (side, peer) in enumerate(launch.op.halves):
        other = heads.get((peer, launch.op.group))
        wanted: tuple[Side, int] = ("recv" if side == "send" else "send", launch.rank)
        if index in launch.met or other is None or other.op.what != "pair" or wanted not in other.op.halves:
            continue
        there = other.op.halves.index(wanted)
        if there not in other.met:
            launch.met.add(index)
            other.met.add(there)
            other.done = len(other.met) == len(other.op.halves)
    launch.done = len(launch.met) == len(launch.op.halves)
