"""User code of another hand over the simulated NCCL: sharded layers, a prefetching reader, an uploader in an executor.

HX_ARGUMENTS are its words, as the other job's; a fault strikes at one step.
"""

from __future__ import annotations

import argparse
import os
import queue
import shlex
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import torch.distributed as dist

from tests.support.simulated_nccl.habits import settle
from tests.support.simulated_nccl.stream import SimulatedStream

READS = argparse.ArgumentParser()
READS.add_argument("--library", type=Path)
READS.add_argument("--folder", type=Path)
READS.add_argument("--step-time", type=float)
READS.add_argument("--fault")
READS.add_argument("--fault-rank", type=int)
READS.add_argument("--after", type=float)
READS.add_argument("--at-step", type=int, default=6)
GIVEN = READS.parse_args(shlex.split(os.environ["HX_ARGUMENTS"]))
BLOCKS = 6


def strikes(fault: str, step: int) -> bool:
    return bool(GIVEN.fault == fault and GIVEN.fault_rank == dist.get_rank() and step == GIVEN.at_step)


def never_opens(name: str) -> Path:
    pipe = Path(GIVEN.folder) / f"{name}-{os.getpid()}"
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe)
    return pipe


class Documents:
    """Tokenizes ahead in a thread; the loop takes from a queue."""

    def __init__(self) -> None:
        self.ready: queue.Queue[list[int]] = queue.Queue(2)
        threading.Thread(target=self.tokenize_ahead, name="tokenizer", daemon=True).start()

    def tokenize_ahead(self) -> None:
        step = 0
        while True:
            step += 1
            if strikes("prefetch", step):
                never_opens("documents").read_text()
            self.ready.put([step] * 16)

    def next_documents(self) -> list[int]:
        return self.ready.get()


class ShardedModel:
    """Each block's weights are gathered before it computes, and its gradients scattered after."""

    def __init__(self, stream: SimulatedStream) -> None:
        self.stream = stream
        self.shards = [torch.zeros(2048) for _ in range(BLOCKS)]
        self.vocabulary = threading.Lock()

    def forward_backward(self, step: int) -> None:
        for shard in [*self.shards, *reversed(self.shards)]:
            self.stream.all_reduce(shard, None)
            self.stream.compute(GIVEN.step_time / BLOCKS / 2)
        if strikes("vocabulary", step):
            threading.Thread(target=self.hold_vocabulary, name="refresher", daemon=True).start()
            time.sleep(0.3)
        with self.vocabulary:
            pass

    def hold_vocabulary(self) -> None:
        with self.vocabulary:
            threading.Event().wait()


def anneal_schedule(step: int) -> float:
    spread = 1.0
    while strikes("anneal", step):
        spread = spread * 0.5 + 0.1
    return spread


class Snapshots:
    """Written by an executor's thread; the loop waits for the one before."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="uploader")

    def upload_weights(self, target: Path) -> None:
        with target.open("wb") as file:
            torch.save({"weights": torch.zeros(64)}, file)

    def save_in_background(self, step: int) -> None:
        target = Path(GIVEN.folder) / f"snapshot-{dist.get_rank()}.pt"
        if strikes("upload", step):
            target = never_opens("snapshot")
        self.pool.submit(self.upload_weights, target).result()


def optimize() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    Path(GIVEN.folder).mkdir(parents=True, exist_ok=True)
    stream = SimulatedStream(GIVEN.library, 61 << 30)
    model, documents, snapshots = ShardedModel(stream), Documents(), Snapshots()
    dist.barrier()
    settle()
    step = 0
    while True:
        step += 1
        documents.next_documents()
        if strikes("network", step):
            stream.lose_network()
        model.forward_backward(step)
        anneal_schedule(step)
        if step % 3 == 0:
            stream.synchronize()
            snapshots.save_in_background(step)
            sys.stdout.write(f"global_step: {step} | loss: {9 / step + 2:.3f}\n")
            sys.stdout.flush()


optimize()
