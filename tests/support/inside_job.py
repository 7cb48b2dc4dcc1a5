"""A job of two ranks over gloo that tells its steps until it is ended; with ``fault``, rank 1 has another weight."""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist

import hangtop.inside

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
if dist.get_rank() == 1 and "fault" in sys.argv:
    with torch.no_grad():
        model.weight[3, 4] += 1.0
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
hangtop.inside.start(recorder=False)
hangtop.inside.follow(model, optimizer)
sys.stdout.write("up\n")
sys.stdout.flush()
while True:
    optimizer.zero_grad()
    model(torch.ones(2, 8)).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    time.sleep(0.05)
