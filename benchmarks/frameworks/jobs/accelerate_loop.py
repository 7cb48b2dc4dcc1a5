"""Accelerate: a loop of one's own, started by ``accelerate launch``."""

from __future__ import annotations

from collections.abc import Iterator

import mishaps
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, IterableDataset


class Shards(IterableDataset[torch.Tensor]):
    """Samples without an end."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in mishaps.samples(self.rank):
            yield torch.randn(32)


def main() -> None:
    """One rank."""
    torch.set_num_threads(1)
    inside = mishaps.inside()
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    mishaps.leave_word("begins", rank)
    model = torch.nn.Linear(32, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer = accelerator.prepare(model, optimizer)
    if inside:
        inside.follow(model, optimizer)
    for step, batch in enumerate(DataLoader(Shards(rank), batch_size=1), start=1):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        accelerator.backward(loss)
        mishaps.look_up(rank, step)
        optimizer.step()
        if mishaps.is_due("only_here", rank, step):
            accelerator.wait_for_everyone()
        path = mishaps.checkpoint_path(rank, step)
        if path is not None:
            accelerator.save(model.state_dict(), path)
            accelerator.wait_for_everyone()
        if mishaps.evaluate(rank, step):
            accelerator.wait_for_everyone()
        if step % 10 == 0:
            accelerator.print(f"step {step} loss {loss.item():.4f}", flush=True)
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
