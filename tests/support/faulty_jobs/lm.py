"""A small language model in plain functions: DDP, a generator that reads token files, a checkpoint every few steps."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tests.support.faulty_jobs.striking import FOLDER, dead_file, say, strikes

PAUSE = float(os.environ.get("HX_PAUSE", "0.03"))
VOCABULARY = 64
MUTEX = threading.Lock()


def token_pages(step: int) -> Tensor:
    if strikes(step, "reader"):
        pages = dead_file("tokens-00031.bin").read_bytes()
        return torch.frombuffer(bytearray(pages), dtype=torch.uint8)
    return torch.randint(0, VOCABULARY, (4, 16))


def corpus() -> Iterator[Tensor]:
    step = 0
    while True:
        yield token_pages(step)
        step += 1


class Decoder(nn.Module):  # type: ignore[misc,unused-ignore]
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 32)
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        time.sleep(PAUSE)  # what a GPU would do meanwhile
        logits: Tensor = self.head(self.embed(tokens))
        return logits


def refresh_vocabulary(step: int) -> int:
    if strikes(step, "lock"):
        threading.Thread(target=MUTEX.acquire, daemon=True).start()
        time.sleep(0.2)
    with MUTEX:
        return step


def anneal(step: int) -> None:
    if strikes(step, "busy"):
        spread = 1
        while spread:
            spread = spread % 7 + 1
    if strikes(step, "nap"):
        time.sleep(86400)


def write_state(model: nn.Module, step: int) -> None:
    target = FOLDER / f"state-{dist.get_rank()}.pt"
    if strikes(step, "checkpoint"):
        target = dead_file("state.part")
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), target)
    if strikes(step, "slow_save"):
        for part in range(400):
            torch.save(torch.randn(64, 1024), target.with_suffix(f".{part}"))
            time.sleep(0.1)
    dist.barrier()


def epoch() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = nn.parallel.DistributedDataParallel(Decoder())
    optimizer = torch.optim.AdamW(model.parameters())
    say("up")
    for step, tokens in enumerate(corpus()):
        if step == 6:
            say("moves")
        refresh_vocabulary(step)
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        anneal(step)
        optimizer.step()
        optimizer.zero_grad()
        if step % 4 == 0:
            write_state(model, step)


epoch()
