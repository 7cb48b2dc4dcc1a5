"""Accelerate's notebook_launcher: the program itself starts the ranks, as forks, and waits for them."""

from __future__ import annotations

import os

import mishaps
import torch
from accelerate import Accelerator, notebook_launcher


def training_function() -> None:
    """One rank."""
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    mishaps.leave_word("begins", rank)
    model = torch.nn.Linear(16, 4)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for step in mishaps.samples(rank):
        loss = model(torch.randn(8, 16)).square().mean()
        optimizer.zero_grad()
        accelerator.backward(loss)
        mishaps.look_up(rank, step)
        optimizer.step()
        if mishaps.is_due("only_here", rank, step):
            accelerator.gather(loss.detach())
        if mishaps.evaluate(rank, step):
            accelerator.wait_for_everyone()
        if step % 10 == 0:
            accelerator.print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    notebook_launcher(training_function, num_processes=2, use_port=os.environ["PORT"])
