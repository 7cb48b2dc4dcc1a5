"""Real torch ranks on this machine, over gloo, for checks that ranks make among themselves.

Forked from one process that has torch imported: that costs a start of some tens of milliseconds each, not a second.
"""

from __future__ import annotations

import importlib
import os
import pickle
import select
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any

LIMIT = 60.0
"""Seconds that ranks may take in all."""
AFTER_A_FAILURE = 5.0
"""Seconds that the others may take where one has failed: they may wait for it."""


class Later:
    """A module that is imported when it is first used: torch takes seconds, and every worker collects all tests."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


torch: Any = Later("torch")


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
    try:
        answers = _answers(pipes, limit)
    finally:
        for pid, reading in zip(pids, pipes, strict=True):
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(reading)
    for rank, (well, answer) in sorted(answers.items()):
        assert well, f"rank {rank} failed:\n{answer}"
    missing = sorted(set(range(world)) - set(answers))
    assert not missing, f"ranks {missing} did not end within {limit} s"
    return [answers[rank][1] for rank in range(world)]


def _be(rank: int, world: int, port: int, work: Callable[[int], Any], writing: int) -> None:
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    try:
        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo")
        answer = (True, work(rank))
    except BaseException:  # noqa: BLE001 - told to the test
        answer = (False, traceback.format_exc())
    with os.fdopen(writing, "wb") as pipe:
        pickle.dump(answer, pipe)
    time.sleep(LIMIT)  # the store is rank 0's: it stays until all are done, and the parent ends them
    os._exit(0)


def _answers(pipes: list[int], limit: float) -> dict[int, tuple[bool, Any]]:
    """What the ranks said until time was up: whether all went well, and what came of it."""
    deadline = time.monotonic() + limit
    said: dict[int, bytes] = {}
    answers: dict[int, tuple[bool, Any]] = {}
    while len(answers) < len(pipes):
        waiting = [pipe for rank, pipe in enumerate(pipes) if rank not in answers]
        readable, _, _ = select.select(waiting, [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            break
        for pipe in readable:
            rank, data = pipes.index(pipe), os.read(pipe, 1 << 16)
            said[rank] = said.get(rank, b"") + data
            if data:
                continue
            answers[rank] = pickle.loads(said[rank]) if said[rank] else (False, "it ended without a word")
            if not answers[rank][0]:
                deadline = min(deadline, time.monotonic() + AFTER_A_FAILURE)
    return answers
