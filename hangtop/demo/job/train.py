"""A DistributedDataParallel job in the common shape: a loop over a DataLoader, checkpoints by rank 0.

Any launcher will do: it reads RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from its environment.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from hangtop.demo.job import faults
from hangtop.demo.job.arguments import Arguments, parse
from hangtop.demo.job.checkpoint import save_checkpoint
from hangtop.demo.job.data import LENGTH, ShardedTokens, end_with_parent, write_shards
from hangtop.demo.job.device import RankGpu
from hangtop.demo.job.faults import Plan
from hangtop.demo.job.join import join
from hangtop.demo.job.mishaps import TokenBudget, suffer


class Tracker:
    """Sends metrics from a thread, and waits for it when the process exits, as experiment trackers do."""

    def __init__(self) -> None:
        self._sent = threading.Event()

    def finish(self) -> None:
        """Wait until everything is sent."""
        self._sent.wait()


class Head(nn.Module):
    """Two layers, of which a planted fault leaves the second out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(LENGTH, 64)
        self.predict = nn.Linear(64, LENGTH)

    def forward(self, tokens: Tensor) -> Tensor:
        """Reconstruct ``tokens`` of shape (batch, LENGTH)."""
        hidden = torch.tanh(self.embed(tokens))
        return hidden[:, :LENGTH] if faults.struck("unused") else self.predict(hidden)


def augment(batch: Tensor, step_time: float) -> Tensor:
    """Add noise; on a rank with a planted fault this takes nine more steps' time of CPU."""
    until = time.monotonic() + (9 * step_time if faults.struck("straggler") else 0.0)
    noisy = batch + 0.01 * torch.randn_like(batch)
    while time.monotonic() < until:
        noisy = noisy + 0.0001 * torch.randn_like(batch)
    return noisy


def batches(arguments: Arguments) -> Iterator[Tensor]:
    """Batches without end, epoch after epoch; on a rank with a planted fault they end."""
    dataset = ShardedTokens(arguments.folder / f"shards-{dist.get_rank()}")
    sampler: DistributedSampler[Tensor] = DistributedSampler(dataset, shuffle=False)
    loader = DataLoader(
        dataset,
        batch_size=8,
        sampler=sampler,
        num_workers=arguments.workers,
        worker_init_fn=end_with_parent if arguments.workers else None,
    )
    while True:
        for batch in loader:
            if faults.struck("batches") or faults.struck("early"):
                return
            yield batch


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: Tensor, gpu: RankGpu, step_time: float
) -> Tensor:
    """Forward, backward with DDP's all-reduce, and the update."""
    if faults.struck("oom"):
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.11 GiB of which "
            "1.19 GiB is free. Including non-PyTorch memory, this process has 77.90 GiB memory in use. Of the "
            "allocated memory 75.31 GiB is allocated by PyTorch, and 1.62 GiB is reserved by PyTorch but unallocated."
        )
    with gpu.kernels():
        gpu.compute(step_time)
        loss = torch.nn.functional.mse_loss(model(batch), batch)
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def log_metrics(loss: Tensor, step: int, took: float, gpu: RankGpu, metrics: dist.ProcessGroup) -> None:
    """Print the step; with a planted fault this rank alone asks for the mean over all ranks."""
    if faults.struck("conditional"):
        with gpu.kernels():
            dist.all_reduce(loss, group=metrics)
    print(f"step {step} loss {loss.item():.4f} ({took:.2f} s)", flush=True)


def train(arguments: Arguments) -> None:
    """Train until the steps are done."""
    rank = dist.get_rank()
    write_shards(arguments.folder / f"shards-{rank}")
    torch.manual_seed(rank)
    gpu = RankGpu(memory=(30 + rank % 3) << 30)
    model = DistributedDataParallel(Head())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    metrics = dist.new_group()
    budget, tracker = TokenBudget(), Tracker()
    saver = arguments.plan.rank if arguments.plan.fault == "checkpoint" else 0
    time.sleep(arguments.compile_time)
    dist.barrier()
    faults.arm(arguments.plan, rank)
    started = time.monotonic()
    for step, batch in enumerate(batches(arguments), start=1):
        suffer(budget, arguments.folder)
        loss = train_step(model, optimizer, augment(batch, arguments.step_time), gpu, arguments.step_time)
        log_metrics(loss, step, time.monotonic() - started, gpu, metrics)
        if step % arguments.save_every == 0 and rank == saver:
            save_checkpoint(model.module, step, arguments.folder / "checkpoints", arguments.save_time)
        if step == arguments.steps:
            break
        started = time.monotonic()
    if faults.struck("early"):
        atexit.register(tracker.finish)
        return
    with gpu.kernels():
        dist.barrier(group=metrics)
    dist.destroy_process_group()


def main() -> None:
    """Join the job and train."""
    arguments = parse("Train a small model with DistributedDataParallel over gloo.")
    torch.set_num_threads(1)
    faults.arm(Plan(arguments.plan.fault, arguments.plan.rank), int(os.environ["RANK"]))  # there is no step to wait for
    while faults.struck("init"):
        time.sleep(1.0)
    join()
    train(arguments)


if __name__ == "__main__":
    main()
