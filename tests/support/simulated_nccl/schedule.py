"""One forward, one backward: the schedule of a pipeline, with neighbours' sends and receives batched."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tests.support.simulated_nccl.groups import JobGroups
from tests.support.simulated_nccl.stream import SimulatedStream, Transfer

WIDTH = 1024


class Neighbours:
    """Exchanges activations and gradients with the stages before and after."""

    def __init__(self, groups: JobGroups, stream: SimulatedStream) -> None:
        self._groups = groups
        self._stream = stream

    def _communicate(self, *ways: tuple[int, int]) -> None:
        """Exchange in all of these directions (steps along the pipeline: from, to) at once, and wait for the GPU."""
        groups, stages = self._groups, self._groups.stages
        transfers = []
        for source, target in ways:
            if min(source, target) >= 0 and max(source, target) < len(stages):
                one, other = stages[source], stages[target]
                transfers.append(Transfer(self._tensor(), one, groups.link(one, other)))
        if transfers:
            self._stream.batch_isend_irecv(transfers)
            self._stream.synchronize()  # as Megatron does after a batch (batch_p2p_sync)

    @staticmethod
    def _tensor() -> Tensor:
        return torch.zeros(WIDTH)

    def recv_forward(self) -> None:
        """Activations of the stage before."""
        self._communicate((self._groups.stage - 1, self._groups.stage))

    def recv_backward(self) -> None:
        """Gradients of the stage after."""
        self._communicate((self._groups.stage + 1, self._groups.stage))

    def send_forward(self) -> None:
        """Activations to the stage after."""
        self._communicate((self._groups.stage, self._groups.stage + 1))

    def send_backward(self) -> None:
        """Gradients to the stage before."""
        self._communicate((self._groups.stage, self._groups.stage - 1))

    def send_forward_recv_backward(self) -> None:
        """Both with the stage after."""
        here = self._groups.stage
        self._communicate((here, here + 1), (here + 1, here))

    def send_backward_recv_forward(self) -> None:
        """Both with the stage before."""
        here = self._groups.stage
        self._communicate((here, here - 1), (here - 1, here))


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
        near.recv_forward()
        forward()
        near.send_forward()
    if micro_batches > ahead:
        near.recv_forward()
    for left in range(micro_batches - ahead, 0, -1):
        forward()
        near.send_forward_recv_backward()
        backward()
        if left > 1:
            near.send_backward_recv_forward()
        else:
            near.send_backward()
    for _ in range(ahead):
        near.recv_backward()
        backward()
        near.send_backward()
