"""A trainer class with a DataLoader that has a worker process, batch norm, hooks and an end of epoch.

Its faults strike when there is a file HX_WHEN, where that is given.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from tests.support.faulty_jobs.striking import FAULT, RANK, STEP, WHO, say

WHEN = Path(os.environ["HX_WHEN"]) if "HX_WHEN" in os.environ else None


class Pictures(Dataset):  # type: ignore[misc,type-arg,unused-ignore]
    def __len__(self) -> int:
        return 40_000

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if FAULT == "worker" and RANK == WHO and index >= 4 * 4 * STEP:
            self.fetch_remote()
        return torch.randn(3, 8, 8), index % 10

    def fetch_remote(self) -> bytes:
        say("struck")
        reader, _ = os.pipe()
        return os.read(reader, 4096)


class Trainer:
    def __init__(self) -> None:
        dist.init_process_group("gloo")
        self.reporting = dist.new_group()
        torch.manual_seed(RANK)
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
        self.net = nn.parallel.DistributedDataParallel(net)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01)
        pictures = Pictures()
        sampler = DistributedSampler(pictures, shuffle=False)
        self.loader = DataLoader(pictures, batch_size=4, sampler=sampler, num_workers=1 if FAULT == "worker" else 0)
        self.losses: list[float] = []
        say("up")

    def fit(self) -> None:
        for step, (images, labels) in enumerate(self.loader):
            if step == 6:
                say("moves")
            mine = RANK == WHO and (WHEN.exists() if WHEN else step == STEP)
            if mine and FAULT == "fewer_batches":
                say("struck")
                break
            if mine:
                self.on_step()
            if FAULT == "slow" and RANK == WHO:
                self.augment_again()
            self.training_step(images, labels)
        self.on_fit_end()

    def on_step(self) -> None:
        if FAULT != "none":
            say("struck")
        if FAULT == "only_here":
            self.share_histogram()
        if FAULT == "raise":
            self.check_ranges()
        if FAULT == "trace":
            self.specialise()

    def augment_again(self) -> None:
        time.sleep(0.4)

    def share_histogram(self) -> None:
        mean = torch.tensor(self.losses).mean()
        dist.all_reduce(mean, group=self.reporting)

    def check_ranges(self) -> int:
        limits = {"contrast": 3}
        return limits["brightness"]

    def specialise(self) -> None:
        def unrolled(value: Tensor) -> Tensor:
            for _ in range(30000):
                value = value * 2 + 1
            return value

        torch.compile(unrolled, backend="eager")(torch.ones(2))

    def training_step(self, images: Tensor, labels: Tensor) -> None:
        time.sleep(0.03)
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())

    def on_fit_end(self) -> None:
        total = torch.tensor(self.losses).sum()
        dist.all_reduce(total)
        dist.destroy_process_group()


Trainer().fit()
