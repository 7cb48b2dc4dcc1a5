"""FSDP2 over tensor parallelism, two by two ranks, with a distributed checkpoint; started by torchrun."""

from __future__ import annotations

import mishaps
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def main() -> None:
    """One rank."""
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    rank = dist.get_rank()
    mishaps.leave_word("begins", rank)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.AdamW(model.parameters())
    for step in mishaps.samples(rank):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 32)).square().mean()
        loss.backward()
        mishaps.look_up(rank, step)
        optimizer.step()
        if mishaps.is_due("only_here", rank, step):
            dist.barrier()
        path = mishaps.checkpoint_path(rank, step)
        if path is not None:
            torch.save({name: value.to_local() for name, value in model.state_dict().items()}, path)
            dist.barrier()
        if mishaps.evaluate(rank, step):
            dist.barrier()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
