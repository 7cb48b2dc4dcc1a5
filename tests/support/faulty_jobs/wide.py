"""A healthy job whose ranks exchange a megabyte a step over gloo."""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def train() -> None:
    """Steps without an end."""
    gradients = torch.zeros(250_000)
    step = 0
    while True:
        step += 1
        time.sleep(0.2)
        dist.all_reduce(gradients)
        say(f"step {step}")
        if step == 3:
            say("moves")


torch.set_num_threads(1)
dist.init_process_group("gloo")
train()
