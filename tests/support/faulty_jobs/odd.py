"""User code of odd habits: groups in groups, hooks that wait, handlers, finalizers, child processes, bursts, savers.

HX_KIND is the habit; some strike on rank HX_WHO at one step, and then it says "struck". "moves" after a few steps.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

KIND = os.environ["HX_KIND"]
WHO = int(os.environ.get("HX_WHO", "-1"))
RANK = int(os.environ["RANK"])
FOLDER = Path(os.environ["HX_FOLDER"])
STEP = 8
SERVER = socket.create_server(("127.0.0.1", 0))
BURNS = "import time\nend = time.time() + 30\nwhile time.time() < end: pass"


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def fetch_labels() -> None:
    socket.create_connection(SERVER.getsockname()).recv(1)


class Shards(Dataset):  # type: ignore[misc,type-arg,unused-ignore]
    def __len__(self) -> int:
        return 100000

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        page = torch.randn(64)
        for _ in range(40):
            page = torch.tanh(page @ torch.randn(64, 64))
        return page, index % 10


class Tracker:
    mutex = threading.Lock()

    def __del__(self) -> None:
        with Tracker.mutex:
            pass


def publish(handles: list[dist.Work]) -> None:
    for handle in handles:
        handle.wait()


def wait_for_manifest() -> None:
    while not (FOLDER / "never.json").exists():
        time.sleep(0.1)


def save_in_background() -> None:
    pipe = FOLDER / "model.ckpt"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: torch.save({"w": torch.zeros(4)}, pipe.open("wb"))).result()


def finalize() -> None:
    Tracker.mutex.acquire()
    tracker = Tracker()
    del tracker


def interrupt() -> None:
    signal.signal(signal.SIGUSR1, lambda _number, _frame: fetch_labels())
    os.kill(os.getpid(), signal.SIGUSR1)


def take_from_a_dead_worker() -> None:
    pages: multiprocessing.Queue[int] = multiprocessing.Queue()
    worker = multiprocessing.Process(target=os._exit, args=(1,))
    worker.start()
    pages.get()


def score_predictions() -> None:
    end = time.time() + 30
    while time.time() < end:
        torch.randn(200, 200).mm(torch.randn(200, 200)).sum().item()


def export_weights() -> None:
    for part in range(1500):
        torch.save({"w": torch.randn(1000, 1000)}, FOLDER / f"weights-{part % 8}.pt")


STRIKES: Mapping[str, Callable[[], object]] = {
    "ckpt_thread": save_in_background,
    "child": lambda: subprocess.run(["sleep", "1000"], check=False),
    "handler": interrupt,
    "finalizer": finalize,
    "manifest": wait_for_manifest,
    "store": lambda: dist.distributed_c10d._get_default_store().get("never"),  # type: ignore[attr-defined,unused-ignore]
    "exits": lambda: os._exit(0),
    "queue": take_from_a_dead_worker,
}
"""What one rank does instead of its next step."""
AWAITED: Mapping[str, Callable[[], object]] = {
    "evaluates": score_predictions,
    "saves": export_weights,
    "child_works": lambda: subprocess.run([sys.executable, "-c", BURNS], check=False),
}
"""What one rank does while the others wait for it in a barrier, and comes back from."""


def between_groups() -> None:
    """Reduces over its row, then over its column."""
    for group in ROW_AND_COLUMN:
        dist.all_reduce(torch.ones(10), group=group)


def in_hooks(hit: bool) -> None:
    handles = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(4)]
    if hit and KIND == "async_hook":
        fetch_labels()
    publish([handle for handle in handles if handle is not None])


def habit(step: int) -> None:
    if KIND == "garbage":
        junk: list[list[object]] = [[i] for i in range(300_000)]
        for each in junk:
            each.append(each)
        del junk
        gc.collect()
    if KIND == "bursts" and step % 5 == 0:
        sum(i * i for i in range(9_000_000))
    if KIND == "uneven" and step % 4 == RANK:
        time.sleep(0.8)


def fit() -> None:
    torch.manual_seed(RANK)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = iter(DataLoader(Shards(), batch_size=16, num_workers=2)) if KIND == "loader" else None
    if KIND == "signals":
        signal.signal(signal.SIGALRM, lambda _number, _frame: None)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    step = 0
    while True:
        step += 1
        if step == 6:
            say("moves")
        hit = step == STEP and RANK == WHO
        if hit:
            say("struck")
        pages, labels = next(loader) if loader else (torch.randn(16, 64), torch.randint(0, 10, (16,)))
        time.sleep(0.03)
        habit(step)
        if KIND == "nested_moves":
            between_groups()
            continue
        if KIND.startswith("async"):
            in_hooks(hit)
            continue
        if hit and KIND in STRIKES:
            STRIKES[KIND]()
        if step == STEP and KIND in AWAITED:
            if hit:
                AWAITED[KIND]()
            dist.barrier()
        loss = nn.functional.cross_entropy(model(pages), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


dist.init_process_group("gloo")
ROWS = [dist.new_group([0, 1]), dist.new_group([2, 3])]
COLUMNS = [dist.new_group([0, 2]), dist.new_group([1, 3])]
ROW_AND_COLUMN = (ROWS[RANK // 2], COLUMNS[RANK % 2])
fit()
