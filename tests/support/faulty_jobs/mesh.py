"""No DDP: pairs of ranks split a layer, all ranks average gradients by hand, neighbours pass edges on.

Some faults strike on the pair of rank HX_WHO.
"""

from __future__ import annotations

import threading
import time

import torch
import torch.distributed as dist
from torch import Tensor

from tests.support.faulty_jobs.striking import WHO, say, strikes

PAIR = (WHO, WHO ^ 1)


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

    def forward(self, step: int) -> Tensor:
        half = self.weight @ self.state
        time.sleep(0.03)
        if strikes(step, "pair_lock"):
            with self.gate:
                self.gate.wait()
        if strikes(step, "pair_disagrees", *PAIR):
            if self.rank == WHO:
                dist.reduce(half, dst=min(PAIR), group=self.pair)
            else:
                dist.all_gather([torch.empty(32), torch.empty(32)], half, group=self.pair)
        dist.all_reduce(half, group=self.pair)
        return half

    def exchange_edges(self, step: int, half: Tensor) -> Tensor:
        edge = torch.empty(32)
        if self.rank % 2 or strikes(step, "both_receive", *PAIR):
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
