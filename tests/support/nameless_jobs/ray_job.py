"""Workers of Ray that make a process group with a rank of which no environment tells.

    ray_job.py train     Ray Train's, by a trainer that sets no RANK
    ray_job.py plain     actors that know their rank alone

Rank HX_WHO blocks in its reader at step 10 and leaves ``struck`` in HX_FOLDER, where all leave ``rank.RANK`` with their
pid. HX_RAY is Ray's own folder: the path of a socket has 107 bytes at the most.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import ray  # type: ignore[import-not-found, unused-ignore]
import torch
import torch.distributed as dist

FOLDER = Path(os.environ["HX_FOLDER"])
WHO, WORLD = int(os.environ["HX_WHO"]), int(os.environ["HX_WORLD"])


def read_shard() -> bytes:
    (FOLDER / "struck").touch()
    reader, _ = os.pipe()
    return os.read(reader, 4096)


def train(rank: int, port: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD)
    partial = FOLDER / f"partial.{rank}"
    partial.write_text(str(os.getpid()))
    partial.rename(FOLDER / f"rank.{rank}")
    gradient, step = torch.ones(1000), 0
    while True:
        step += 1
        if step == 10 and rank == WHO:
            read_shard()
        dist.all_reduce(gradient)
        time.sleep(0.01)


class Worker:
    def __init__(self, rank: int, port: int) -> None:
        self.rank, self.port = rank, port

    def work(self) -> None:
        train(self.rank, self.port)


def trained(config: dict[str, Any]) -> None:
    import ray.train  # type: ignore[import-not-found, unused-ignore]

    train(ray.train.get_context().get_world_rank(), config["port"])


def main() -> None:
    mode = sys.argv[1]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray.init(num_cpus=WORLD + 1, include_dashboard=False, object_store_memory=100 << 20, _temp_dir=os.environ["HX_RAY"])
    if mode == "train":
        from ray.train import RunConfig, ScalingConfig  # type: ignore[import-not-found, unused-ignore]
        from ray.train.v2.api.data_parallel_trainer import (  # type: ignore[import-not-found, unused-ignore]
            DataParallelTrainer,
        )

        DataParallelTrainer(
            trained, train_loop_config={"port": port}, scaling_config=ScalingConfig(num_workers=WORLD, use_gpu=False),
            run_config=RunConfig(storage_path=str(FOLDER / "kept")),
        ).fit()  # fmt: skip
        return
    made = ray.remote(Worker)
    ray.get([made.remote(rank, port).work.remote() for rank in range(WORLD)])


if __name__ == "__main__":
    main()
