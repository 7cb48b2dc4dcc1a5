"""Real torch ranks on this machine, over gloo, for checks that ranks make among themselves.

Forked from one process that has torch imported: that costs a start of some tens of milliseconds each, not a second.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

LIMIT = 60.0
"""Seconds that ranks may take in all."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def run_ranks(world: int, work: Callable[[int], Any], limit: float = LIMIT) -> list[Any]:
    """Run ``work(rank)`` in each of so many ranks with a process group; what each gives, by rank.

    Raises :class:`AssertionError` with the traceback of the first rank that failed, or when time was up.
    """
    import torch._dynamo  # once, for all of them: an optimizer's first step imports it
    import torch.distributed.tensor
    import torch.nn.parallel.distributed  # noqa: F401

    port = free_port()
    pipes, pids = [], []
    for rank in range(world):
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            _be(rank, world, port, work, writing)
        os.close(writing)
        pipes.append(reading)
        pids.append(pid)
    deadline = time.monotonic() + limit
    try:
        answers = [_answer(reading, deadline) for reading in pipes]
    finally:
        for pid in pids:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    for rank, answer in enumerate(answers):
        assert answer is not None, f"rank {rank} did not end within {limit} s"
        assert answer[0], f"rank {rank} failed:\n{answer[1]}"
    return [answer[1] for answer in answers if answer is not None]


def _be(rank: int, world: int, port: int, work: Callable[[int], Any], writing: int) -> None:
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    try:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        answer = (True, work(rank))
    except BaseException:  # noqa: BLE001 - told to the test
        answer = (False, traceback.format_exc())
    with os.fdopen(writing, "wb") as pipe:
        pickle.dump(answer, pipe)
    time.sleep(LIMIT)  # the store is rank 0's: it stays until all are done, and the parent ends them
    os._exit(0)


def _answer(reading: int, deadline: float) -> tuple[bool, Any] | None:
    import select

    with os.fdopen(reading, "rb") as pipe:
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return None
        data = pipe.read()
    sys.stdout.flush()
    return pickle.loads(data) if data else (False, "it ended without a word")
