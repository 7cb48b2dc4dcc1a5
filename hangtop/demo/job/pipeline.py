"""A pipeline-parallel job: every rank is a stage that receives activations, works, and sends them on.

The fault ``conditional`` makes two neighbours receive from one another first, so that neither ever sends.
"""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hangtop.demo.job import faults
from hangtop.demo.job.arguments import Arguments, parse
from hangtop.demo.job.device import RankGpu
from hangtop.demo.job.join import join
from hangtop.demo.job.mishaps import TokenBudget, suffer

WIDTH = 64


class PipelineStage:
    """One stage and its neighbours."""

    def __init__(self) -> None:
        self.rank, self.last = dist.get_rank(), dist.get_world_size() - 1
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.gpu = RankGpu(memory=22 << 30)

    def exchange_ready(self, peer: int) -> None:
        """Tell ``peer`` that this stage is ready, and hear the same: the lower rank speaks first."""
        mine, theirs = torch.ones(1), torch.zeros(1)
        if self.rank < peer and not faults.struck("conditional"):
            dist.send(mine, peer)
            dist.recv(theirs, peer)
        else:
            dist.recv(theirs, peer)
            dist.send(mine, peer)

    def recv_forward(self) -> Tensor:
        """Activations of the stage before; fresh ones in the first stage."""
        if self.rank == 0:
            return torch.randn(8, WIDTH)
        activations = torch.empty(8, WIDTH)
        dist.recv(activations, self.rank - 1)
        return activations

    def send_forward(self, activations: Tensor) -> None:
        """Pass ``activations`` to the next stage."""
        if self.rank < self.last:
            dist.send(activations, self.rank + 1)

    def run_microbatch(self, step_time: float) -> None:
        """One micro-batch through this stage."""
        if self.rank > 0:
            self.exchange_ready(self.rank - 1)
        with self.gpu.kernels():
            activations = self.recv_forward()
            self.gpu.compute(step_time * (10 if faults.struck("straggler") else 1))
            self.send_forward(torch.relu(self.layer(activations)).detach())
        if self.rank < self.last:
            self.exchange_ready(self.rank + 1)


def run(arguments: Arguments) -> None:
    """Feed micro-batches until the steps are done."""
    stage, budget = PipelineStage(), TokenBudget()
    dist.barrier()
    faults.arm(arguments.plan, stage.rank)
    started = time.monotonic()
    for step in range(1, arguments.steps + 1):
        suffer(budget, arguments.folder)
        stage.run_microbatch(arguments.step_time)
        if step % 10 == 0:
            print(f"micro-batch {step} after {time.monotonic() - started:.1f} s", flush=True)


def main() -> None:
    """Join the job and run its stage."""
    arguments = parse("Run a small pipeline over gloo.")
    torch.set_num_threads(1)
    join()
    run(arguments)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
