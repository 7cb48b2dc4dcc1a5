"""Ray Train: a TorchTrainer whose workers are actors."""

from __future__ import annotations

import os

import mishaps
import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed as dist
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train() -> None:
    """One worker."""
    torch.set_num_threads(1)
    rank = ray.train.get_context().get_world_rank()
    mishaps.leave_word("begins", rank)
    model = ray.train.torch.prepare_model(torch.nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
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
            torch.save(model.state_dict(), path)
            dist.barrier()
        if mishaps.evaluate(rank, step):
            dist.barrier()
        if step % 10 == 0:
            ray.train.report({"step": step, "loss": loss.item()})
    dist.barrier()


if __name__ == "__main__":
    ray.init(num_cpus=4, include_dashboard=False, object_store_memory=100 << 20, _temp_dir=os.environ["RAY_FOLDER"])
    TorchTrainer(
        train, scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
        run_config=RunConfig(storage_path=str(mishaps.FOLDER)),
    ).fit()  # fmt: skip
