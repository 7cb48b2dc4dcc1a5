"""A two-dimensional job: pairs of ranks share a layer (tensor parallel), columns of pairs share data (data parallel).

World size must be even. Rank r is half ``r % 2`` of pair ``r // 2``. A fault in one half stops its pair in the pair's
group, and everybody else in the column's group.
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

WIDTH = 32


class ParallelGroups:
    """The groups that this rank is in."""

    def __init__(self) -> None:
        rank, world = dist.get_rank(), dist.get_world_size()
        pairs = [dist.new_group([first, first + 1], group_desc="tp") for first in range(0, world, 2)]
        columns = [dist.new_group(list(range(half, world, 2)), group_desc="dp") for half in (0, 1)]
        self.pair: dist.ProcessGroup = pairs[rank // 2]
        self.column: dist.ProcessGroup = columns[rank % 2]
        self.rank = rank


class HalfLayer(nn.Module):
    """Half of a linear layer; the pair's sum is the whole."""

    def __init__(self, grid: ParallelGroups) -> None:
        super().__init__()
        self.grid = grid
        self.linear = nn.Linear(WIDTH // 2, WIDTH)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, WIDTH // 2) of this half to (batch, WIDTH) of the pair."""
        partial = self.linear(inputs)
        summed = partial.detach().clone()
        dist.all_reduce(summed, group=self.grid.pair)
        return partial + (summed - partial.detach())


def sync_column(layer: HalfLayer) -> None:
    """Average the gradients over the column."""
    for weight in layer.parameters():
        assert weight.grad is not None
        dist.all_reduce(weight.grad, group=layer.grid.column)


def load_sample(step: int) -> Tensor:
    """Make a batch; stands for reading one."""
    generator = torch.Generator().manual_seed(step)
    return torch.randn(4, WIDTH // 2, generator=generator)


def fit(arguments: Arguments) -> None:
    """Train until the steps are done."""
    grid, budget = ParallelGroups(), TokenBudget()
    layer, gpu = HalfLayer(grid), RankGpu(memory=55 << 30)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    dist.barrier()
    faults.arm(arguments.plan, grid.rank)
    for step in range(1, arguments.steps + 1):
        suffer(budget, arguments.folder)
        inputs = load_sample(step)
        with gpu.kernels():
            gpu.compute(arguments.step_time * (10 if faults.struck("straggler") else 1))
            if faults.struck("conditional"):
                dist.barrier(group=grid.pair)
            loss = layer(inputs).square().mean()
            loss.backward()
            sync_column(layer)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        if step % 10 == 0:
            print(f"{time.strftime('%H:%M:%S')} iteration {step}: {loss.item():.4f}", flush=True)


def main() -> None:
    """Join the job and train."""
    arguments = parse("Train a layer split over pairs of ranks over gloo.")
    torch.set_num_threads(1)
    join()
    fit(arguments)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
