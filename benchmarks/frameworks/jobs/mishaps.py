"""What goes wrong in these jobs; the environment says what (``MISHAP``), on which rank (``MISHAP_RANK``).

Each job calls this where a user's own code would be: when it reads a sample, in its step, when it saves. ``MISHAP_DIR``
is where ranks leave word for the runner: ``begins.RANK``, ``moves.RANK`` and ``struck.RANK``, each with their pid; once
all move they wait for its ``go``. With ``INSIDE`` set they also call ``hangtop.inside``, as docs/inside.md has it.
"""

from __future__ import annotations

import importlib
import itertools
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MISHAP = os.environ.get("MISHAP", "healthy")
CULPRIT = int(os.environ.get("MISHAP_RANK", "-1"))
FOLDER = Path(os.environ.get("MISHAP_DIR", "."))
AT = 8
"""Step at which it happens."""
PACE = 0.02
"""Seconds that a sample takes: the machine has other work to do."""

_table = threading.Lock()


def inside() -> Any:
    """``hangtop.inside`` after its ``start()``, in a job that is to call it; None in the others."""
    if not os.environ.get("INSIDE"):
        return None
    module = importlib.import_module("hangtop.inside")
    module.start()
    return module


def leave_word(word: str, rank: int) -> None:
    """Tell the runner."""
    path = FOLDER / f"{word}.{rank}"
    partial = path.with_suffix(f".partial{rank}")
    partial.write_text(str(os.getpid()))
    partial.rename(path)


def is_due(what: str, rank: int, step: int = AT) -> bool:
    """True for the rank and the step at which this happens; the runner is told."""
    due = what == MISHAP and rank == CULPRIT and step == AT
    if due:
        leave_word("struck", rank)
    return due


def read_sample(rank: int, number: int) -> None:
    """What a dataset does to get at a sample."""
    if is_due("reader", rank, number):
        with fifo("shard").open("rb") as file:
            file.read()
    time.sleep(0.8 if MISHAP == "healthy_slow" else PACE)


def samples(rank: int) -> Iterator[int]:
    """Numbers of the samples that this rank has: without an end, or fewer than the others."""
    for number in itertools.count(1):
        if is_due("early", rank, number):
            return
        read_sample(rank, number)
        yield number


def look_up(rank: int, step: int) -> None:
    """What the step does with a table that a thread keeps up to date."""
    if step == 3:
        leave_word("moves", rank)
        wait_for_the_runner()
    if is_due("lock", rank, step):
        threading.Thread(target=refresh_table, daemon=True).start()
        time.sleep(0.2)
        with _table:
            return
    if is_due("busy", rank, step):
        rebalance()


def wait_for_the_runner() -> None:
    """Go on when the runner, whom all ranks have told that they train, says so."""
    while not (FOLDER / "go").exists():
        time.sleep(0.1)


def refresh_table() -> None:
    """Keep the table, for ever."""
    with _table:
        time.sleep(100_000)


def rebalance() -> None:
    """Never come to an end."""
    weights = list(range(1000))
    while sum(weights) > 0:
        weights = weights[1:] + weights[:1]


def evaluate(rank: int, step: int) -> bool:
    """Have rank 0 compute for a long time at this step; True for all ranks, who meet afterwards."""
    if MISHAP != "healthy_eval" or step != AT:
        return False
    if rank == 0:
        leave_word("struck", rank)
        score_all_samples()
    return True


def score_all_samples() -> None:
    """Compute for longer than the runner looks."""
    ends = time.monotonic() + 90
    score = 0.0
    while time.monotonic() < ends:
        score += sum(value * 0.5 for value in range(10_000))
        time.sleep(0.005)


def checkpoint_path(rank: int, step: int) -> Path | None:
    """Where to save at this step, None for not now; on the rank that it happens to, nobody takes what is written."""
    if MISHAP != "checkpoint" or step != AT:
        return None
    return fifo("model.pt") if is_due("checkpoint", rank, step) else FOLDER / f"model-{rank}.pt"


def fifo(name: str) -> Path:
    """A pipe at whose other end is nobody."""
    path = FOLDER / name
    if not path.exists():
        os.mkfifo(path)
    return path
