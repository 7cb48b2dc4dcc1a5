"""DeepSpeed ZeRO-3 on CPUs with gloo, started by torchrun."""

from __future__ import annotations

import os

import deepspeed
import mishaps
import torch
import torch.distributed as dist

CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
    "zero_allow_untested_optimizer": True,
    "steps_per_print": 10,
}


def main() -> None:
    """One rank."""
    torch.set_num_threads(1)
    inside = mishaps.inside()
    deepspeed.init_distributed(dist_backend="gloo")
    rank = int(os.environ["RANK"])
    mishaps.leave_word("begins", rank)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    if inside:
        inside.follow(engine)
    for step in mishaps.samples(rank):
        loss = engine(torch.randn(1, 32)).float().square().mean()
        engine.backward(loss)
        mishaps.look_up(rank, step)
        engine.step()
        if mishaps.is_due("only_here", rank, step):
            dist.barrier()
        path = mishaps.checkpoint_path(rank, step)
        if path is not None:
            torch.save(torch.ones(1000), path)
            dist.barrier()
        if mishaps.evaluate(rank, step):
            dist.barrier()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
