"""Which of its processes a rank waits for, where it has started several."""

from __future__ import annotations

import pytest

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.stacks import activity
from tests.support.stacks import SCRIPT, STDLIB, dump, main_dump, thread

POOL = f"{STDLIB}/multiprocessing"
JOIN = (f"Popen.poll {POOL}/popen_fork.py:27", f"Process.join {POOL}/process.py:149", f"Saver.save {SCRIPT}:60")
STARTED = (f"BaseProcess.run {POOL}/process.py:108", f"BaseProcess._bootstrap {POOL}/process.py:314")


def rank(waiting_on: str) -> StackDump:
    return main_dump(*JOIN, syscall="wait4")._replace(waiting_on=waiting_on)


def child(pid: int, *frames: str, syscall: str, waiting_on: str = "") -> StackDump:
    return dump(thread(*frames, *STARTED), pid=pid, rank_pid=100, syscall=syscall, waiting_on=waiting_on)


SERVER = child(101, f"socket.accept {STDLIB}/socket.py:294", f"serve {SCRIPT}:9", syscall="accept4",
               waiting_on="tcp 0.0.0.0:0")  # fmt: skip
READER = child(102, f"prefetch {SCRIPT}:20", syscall="read", waiting_on="/data/a.tar")
WRITER = child(103, f"writer {SCRIPT}:99", syscall="openat", waiting_on="/ckpt/model.pt, to write")


@pytest.mark.parametrize(
    ("waiting_on", "helpers", "where", "on"),
    [
        ("process 103", [SERVER, READER, WRITER], "writer (train.py:99)", "/ckpt/model.pt, to write"),
        ("process 101", [SERVER, READER], "serve (train.py:9)", "tcp 0.0.0.0:0"),
        ("process 77", [SERVER, READER], "prefetch (train.py:20)", "/data/a.tar"),
        ("", [SERVER, READER], "prefetch (train.py:20)", "/data/a.tar"),
        ("", [SERVER], "Saver.save (train.py:60)", ""),
    ],
    ids=["it is told", "a server that is told", "its child is a shell", "it is not told", "only a server"],
)
def test_a_rank_is_where_the_process_is_that_it_waits_for(
    waiting_on: str, helpers: list[StackDump], where: str, on: str
) -> None:
    doing = activity([rank(waiting_on), *helpers])
    assert (doing.where, doing.waiting_on, doing.waits) == (where, on, "helper")


def test_what_a_worker_does_behind_a_pipe_is_told_of_the_pipe() -> None:
    reads = main_dump(f"_recv {POOL}/connection.py:395", f"step {SCRIPT}:27", syscall="read")
    doing = activity([reads._replace(waiting_on="pipe"), READER])
    assert (doing.where, doing.waiting_on) == ("prefetch (train.py:20)", "pipe")


@pytest.mark.parametrize(("waiting_on", "carried"), [("process 102", 2e6), ("process 101", None), ("", None)])
def test_what_the_connections_of_the_child_carry_counts_for_the_rank(waiting_on: str, carried: float | None) -> None:
    looks = []
    for at in (1000.0, 1002.0):
        looks += [rank(waiting_on)._replace(at=at), SERVER._replace(at=at)]
        looks.append(READER._replace(at=at, carried=int((at - 1000.0) * 2e6)))
    assert activity(looks).carried == carried
