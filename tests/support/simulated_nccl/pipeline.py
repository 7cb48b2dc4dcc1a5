"""The groups of a job with tensor, pipeline and data parallelism, as Megatron makes them, and a pipeline's schedule.

Ranks of one tensor group are next to each other, then those of one data group, then the stages of a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.distributed as dist

from tests.support.simulated_nccl.stream import SimulatedStream, Transfer

WIDTH = 1024


@dataclass(frozen=True, slots=True)
class GroupSizes:
    """How many ranks each kind of group has."""

    tensor: int
    data: int
    pipeline: int

    def rank(self, tensor: int, data: int, pipeline: int) -> int:
        """Global rank of a place in the grid."""
        return (pipeline * self.data + data) * self.tensor + tensor

    def lines(self, along: str) -> list[list[int]]:
        """Global ranks of every group along one direction, or along two (``tensor+pipeline``)."""
        whole = {"tensor": self.tensor, "data": self.data, "pipeline": self.pipeline}
        inside = {name: range(size) if name in along.split("+") else range(1) for name, size in whole.items()}
        outside = {name: range(1) if name in along.split("+") else range(size) for name, size in whole.items()}
        return [
            [
                self.rank(t + i, d + j, p + k)
                for k in inside["pipeline"]
                for j in inside["data"]
                for i in inside["tensor"]
            ]
            for p in outside["pipeline"]
            for d in outside["data"]
            for t in outside["tensor"]
        ]


class JobGroups:
    """The groups that this rank is in; every rank makes all of them in the same order."""

    def __init__(self, tensor: int, pipeline: int) -> None:
        """Raises :class:`ValueError` when the world has no such grid."""
        world, self.rank = dist.get_world_size(), dist.get_rank()
        if world % (tensor * pipeline):
            raise ValueError(f"{world} ranks are no grid of {tensor} × {pipeline}")
        self.sizes = GroupSizes(tensor, world // (tensor * pipeline), pipeline)
        self.data = self._mine("data", "DATA_PARALLEL_GROUP")
        self.model = self._mine("tensor+pipeline", "MODEL_PARALLEL_GROUP")
        self.tensor = self._mine("tensor", "TENSOR_MODEL_PARALLEL_GROUP")
        self.stages = next(line for line in self.sizes.lines("pipeline") if self.rank in line)
        self.stage = self.stages.index(self.rank)
        self._mine("pipeline", "PIPELINE_MODEL_PARALLEL_GROUP")
        self._links = self._pairs()

    def _mine(self, along: str, what: str) -> dist.ProcessGroup:
        made = [(line, dist.new_group(line, group_desc=what)) for line in self.sizes.lines(along)]
        group: dist.ProcessGroup = next(group for line, group in made if self.rank in line)
        return group

    def _pairs(self) -> dict[tuple[int, int], dist.ProcessGroup]:
        """A group for each direction between neighbouring stages: NCCL has a channel for each, too."""
        made = {}
        for line in self.sizes.lines("pipeline"):
            for one, other in pairwise(line):
                for way in ((one, other), (other, one)):
                    made[way] = dist.new_group([one, other], group_desc="PIPELINE_MODEL_PARALLEL_GROUP")
        return made

    def link(self, source: int, target: int) -> dist.ProcessGroup:
        """What carries messages from global rank ``source`` to ``target``, neighbours in a pipeline."""
        return self._links[source, target]

    @property
    def first(self) -> bool:
        """True in the first stage."""
        return self.stage == 0

    @property
    def last(self) -> bool:
        """True in the last stage."""
        return self.stage == len(self.stages) - 1


class Neighbours:
    """Exchanges activations and gradients with the stages before and after."""

    def __init__(self, groups: JobGroups, stream: SimulatedStream) -> None:
        self._groups, self._stream = groups, stream

    def exchange(self, *ways: tuple[int, int]) -> None:
        """Exchange in all of these directions (steps from this stage: from, to) at once, and wait for the GPU."""
        groups, stages = self._groups, self._groups.stages
        transfers = []
        for source, target in ((groups.stage + a, groups.stage + b) for a, b in ways):
            if min(source, target) >= 0 and max(source, target) < len(stages):
                one, other = stages[source], stages[target]
                transfers.append(Transfer(torch.zeros(WIDTH), one, groups.link(one, other)))
        if transfers:
            self._stream.batch_isend_irecv(transfers)
            self._stream.synchronize()  # as Megatron does after a batch (batch_p2p_sync)


RECV_FORWARD, SEND_FORWARD, RECV_BACKWARD, SEND_BACKWARD = (-1, 0), (0, 1), (1, 0), (0, -1)


def forward_backward(
    groups: JobGroups,
    stream: SimulatedStream,
    micro_batches: int,
    forward: Callable[[], None],
    backward: Callable[[], None],
) -> None:
    """Run one step's micro-batches through this stage: a few forward, then one forward one backward, then the rest."""
    near = Neighbours(groups, stream)
    ahead = min(len(groups.stages) - groups.stage - 1, micro_batches)
    for _ in range(ahead):
        near.exchange(RECV_FORWARD)
        forward()
        near.exchange(SEND_FORWARD)
    if micro_batches > ahead:
        near.exchange(RECV_FORWARD)
    for left in range(micro_batches - ahead, 0, -1):
        forward()
        near.exchange(SEND_FORWARD, RECV_BACKWARD)
        backward()
        if left > 1:
            near.exchange(SEND_BACKWARD, RECV_FORWARD)
        else:
            near.exchange(SEND_BACKWARD)
    for _ in range(ahead):
        near.exchange(RECV_BACKWARD)
        backward()
        near.exchange(SEND_BACKWARD)
