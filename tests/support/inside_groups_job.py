"""A job of four ranks over gloo, tensor × data parallel by hand, that tells its steps until it is ended.

The mesh is dp=2 × tp=2: ranks 0 and 2, and 1 and 3, are replicas; 0 and 1, and 2 and 3, hold other parts of plain
tensors. With ``flip``, one bit of rank 2's part is another; with ``apart``, no rank waits for another, and once it is
asked rank 3 makes no further step.
"""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import hangtop.inside
from hangtop.inside.steps import telling

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
torch.manual_seed(rank % 2)  # a part of its own for each place in the tensor parallel group
model = torch.nn.Linear(8, 8)
if rank == 2 and "flip" in sys.argv:
    model.weight.detach().view(torch.int32)[3, 4] ^= 1
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
hangtop.inside.start(recorder=False)
hangtop.inside.follow(model, optimizer, group=mesh.get_group("dp"))
apart = "apart" in sys.argv
sys.stdout.write("up\n")
sys.stdout.flush()
while True:
    model(torch.ones(2, 8)).sum().backward()
    for parameter in () if apart else model.parameters():
        dist.all_reduce(parameter.grad, group=mesh.get_group("dp"))
    optimizer.step()
    optimizer.zero_grad()
    if not apart:
        dist.all_reduce(torch.ones(1))
    page = telling.page
    while apart and rank == 3 and page is not None and page.question() is not None:
        time.sleep(1.0)
    time.sleep(0.05)
