"""A job in another common shape: a Trainer with callbacks, a prefetched stream, gradients averaged by hand.

Any launcher will do: it reads RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from its environment.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hangtop.demo.job import faults
from hangtop.demo.job.arguments import Arguments, parse
from hangtop.demo.job.data import LENGTH, read_shard, write_shards
from hangtop.demo.job.device import RankGpu
from hangtop.demo.job.join import join
from hangtop.demo.job.mishaps import TokenBudget, suffer


class PrefetchStream:
    """Streams shards through a thread and a queue."""

    def __init__(self, folder: Path) -> None:
        """Start reading ``folder`` ahead."""
        self._paths = sorted(folder.glob("shard-*.bin"))
        self._ready: queue.Queue[Tensor | None] = queue.Queue(maxsize=2)
        threading.Thread(target=self._fetch_loop, name="prefetch", daemon=True).start()

    def _fetch_loop(self) -> None:
        while True:
            for path in self._paths:
                if faults.struck("batches") or faults.struck("early"):
                    self._ready.put(None)
                    return
                source = faults.dead_file(path.parent) if faults.struck("dataloader") else path
                for chunk in read_shard(source).split(8):
                    self._ready.put(chunk)

    def __iter__(self) -> Iterator[Tensor]:
        while (chunk := self._ready.get()) is not None:
            yield chunk


class Callback:
    """Something that a trainer calls between steps."""

    def on_step_end(self, trainer: Trainer, step: int) -> None:
        """Called after each step, counted from 1."""


class ModelSaver(Callback):
    """Saves the weights now and then: rank 0 saves, the others go on."""

    def __init__(self, folder: Path, every: int, takes: float, rank: int) -> None:
        self.folder, self.every, self.takes, self.rank = folder, every, takes, rank

    def on_step_end(self, trainer: Trainer, step: int) -> None:
        """Write a snapshot every ``every`` steps."""
        if step % self.every == 0 and dist.get_rank() == self.rank:
            self.write_snapshot(trainer.network)

    def write_snapshot(self, network: nn.Module) -> None:
        """Write the weights as raw bytes and make sure that they are on the disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = faults.dead_file(self.folder) if faults.struck("checkpoint") else self.folder / "latest.bin"
        with path.open("wb") as file:
            file.writelines(weight.detach().numpy().tobytes() for weight in network.parameters())
            file.flush()
            os.fsync(file.fileno())
        time.sleep(self.takes)


class Monitor(Callback):
    """Prints the mean loss; all ranks take part in the mean."""

    def on_step_end(self, trainer: Trainer, step: int) -> None:
        """Print every tenth step; a rank with a planted fault asks for a mean that the others do not."""
        if faults.struck("conditional") and step % 10:
            dist.all_gather_into_tensor(torch.empty(dist.get_world_size()), trainer.loss.view(1), group=trainer.side)
        if step % 10 == 0:
            dist.all_reduce(trainer.loss, group=trainer.side)
            print(f"[{step}] mean loss {trainer.loss.item() / dist.get_world_size():.5f}", flush=True)


class Trainer:
    """Owns the network, the optimizer and the callbacks."""

    def __init__(self, arguments: Arguments, callbacks: list[Callback]) -> None:
        self.arguments = arguments
        self.callbacks = callbacks
        self.network = nn.Sequential(nn.Linear(LENGTH, 48), nn.GELU(), nn.Linear(48, LENGTH))
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.05)
        self.gpu = RankGpu(memory=41 << 30)
        self.loss = torch.zeros(())
        self.budget = TokenBudget()
        self.side = dist.new_group()

    def fit(self, stream: PrefetchStream) -> None:
        """Train on ``stream`` until it ends or the steps are done."""
        for step, chunk in enumerate(stream, start=1):
            suffer(self.budget, self.arguments.folder)
            self.training_step(chunk)
            for callback in self.callbacks:
                callback.on_step_end(self, step)
            if step == self.arguments.steps:
                break
        self.report_totals()

    def training_step(self, chunk: Tensor) -> None:
        """One forward, backward, gradient exchange and update."""
        with self.gpu.kernels():
            self.gpu.compute(self.arguments.step_time * (10 if faults.struck("straggler") else 1))
            loss = torch.nn.functional.l1_loss(self.network(chunk), chunk)
            loss.backward()
            self.sync_gradients()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        self.loss = loss.detach()

    def sync_gradients(self) -> None:
        """Average every gradient over the ranks."""
        for weight in self.network.parameters():
            assert weight.grad is not None
            if faults.struck("mismatch"):
                dist.broadcast(weight.grad, src=dist.get_rank())
            elif faults.struck("size"):
                dist.all_reduce(weight.grad.flatten()[:7])
            else:
                dist.all_reduce(weight.grad)
                weight.grad /= dist.get_world_size()

    def report_totals(self) -> None:
        """Sum the tokens of all ranks at the end."""
        total = torch.tensor([self.budget.tokens])
        dist.all_reduce(total, group=self.side)
        print(f"{int(total)} tokens in all", flush=True)


def main() -> None:
    """Join the job and train."""
    arguments = parse("Train a small network with gradients averaged by hand over gloo.")
    torch.set_num_threads(1)
    join()
    rank = dist.get_rank()
    shards = arguments.folder / f"stream-{rank}"
    write_shards(shards)
    torch.manual_seed(0)
    saving = arguments.plan.rank if arguments.plan.fault == "checkpoint" else 0
    saver = ModelSaver(arguments.folder / "snapshots", arguments.save_every, arguments.save_time, saving)
    trainer = Trainer(arguments, [saver, Monitor()])
    time.sleep(arguments.compile_time)
    dist.barrier()
    faults.arm(arguments.plan, rank)
    trainer.fit(PrefetchStream(shards))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
