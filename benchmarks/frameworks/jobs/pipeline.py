"""torch.distributed.pipelining: three stages of one model, schedule 1F1B, started by torchrun."""

from __future__ import annotations

import os

import mishaps
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


def main() -> None:
    """One stage."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mishaps.leave_word("begins", rank)
    part = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.01)
    stage = PipelineStage(part, rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
    for step in mishaps.samples(rank):
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(torch.randn(8, 16))
        elif rank == world - 1:
            losses: list[torch.Tensor] = []
            schedule.step(target=torch.randn(8, 16), losses=losses)
            if step % 10 == 0:
                print(f"step {step} loss {losses[0].item():.4f}", flush=True)
        else:
            schedule.step()
        mishaps.look_up(rank, step)
        optimizer.step()
        if mishaps.is_due("only_here", rank, step):
            dist.barrier()
        path = mishaps.checkpoint_path(rank, step)
        if path is not None:
            torch.save(part.state_dict(), path)
            dist.barrier()
        if mishaps.evaluate(rank, step):
            dist.barrier()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print(f"stage {os.environ['RANK']} starts", flush=True)
    main()
