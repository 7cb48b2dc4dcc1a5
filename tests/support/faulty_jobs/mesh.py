"""No DDP: pairs of ranks split a layer, all ranks average gradients by hand, neighbours pass edges on.

HX_FAULT strikes on rank HX_WHO (or on its pair) at step HX_STEP. Says "struck" when it does.
"""

from __future__ import annotations

import os
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import Tensor

FAULT = os.environ.get("HX_FAULT", "none")
WHO = int(os.environ.get("HX_WHO", "-1"))
STEP = int(os.environ.get("HX_STEP", "10"))
PAIR = (WHO, WHO ^ 1)


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


class Mesh:
    def __init__(self) -> None:
        dist.init_process_group("gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        pairs = [dist.new_group([first, first + 1]) for first in range(0, self.size, 2)]
        self.pair = pairs[self.rank // 2]
        self.partner = self.rank ^ 1
        self.weight = torch.randn(32, 32) / 8
        self.state = torch.randn(32)
        self.gate = threading.Condition()

    def struck(self, step: int, fault: str, *ranks: int) -> bool:
        if fault != FAULT or step != STEP or self.rank not in ranks:
            return False
        say("struck")
        return True

    def forward(self, step: int) -> Tensor:
        half = self.weight @ self.state
        time.sleep(0.03)
        if self.struck(step, "pair_lock", WHO):
            with self.gate:
                self.gate.wait()
        if self.struck(step, "pair_disagrees", *PAIR):
            if self.rank == WHO:
                dist.reduce(half, dst=min(PAIR), group=self.pair)
            else:
                dist.all_gather([torch.empty(32), torch.empty(32)], half, group=self.pair)
        dist.all_reduce(half, group=self.pair)
        return half

    def exchange_edges(self, step: int, half: Tensor) -> Tensor:
        edge = torch.empty(32)
        if self.rank % 2 or self.struck(step, "both_receive", *PAIR):
            dist.recv(edge, src=self.partner)
            dist.send(half, dst=self.partner)
        else:
            dist.send(half, dst=self.partner)
            dist.recv(edge, src=self.partner)
        return half + edge

    def average(self, gradient: Tensor) -> None:
        dist.all_reduce(gradient)
        self.weight -= 1e-3 * torch.outer(gradient / self.size, self.state)

    def run(self) -> None:
        say("up")
        step = 0
        while True:
            if step == 6:
                say("moves")
            joined = self.exchange_edges(step, self.forward(step))
            self.average(joined.tanh())
            step += 1


Mesh().run()
