"""What Ray Train writes around the end of a worker, as version 2.60 wrote it; paths and texts are cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.logs import of_kind, parse
from tests.support.saved import verdict

CONTROLLER, WORKER = "\x1b[36m(TrainController pid=23329)\x1b[0m ", "\x1b[36m(RayTrainWorker pid=23535)\x1b[0m "
STARTED = (
    f"{CONTROLLER}Started training worker group of size 2: \n"
    f"{CONTROLLER}- (ip=10.0.0.7, pid=23535) world_rank=0, local_rank=0, node_rank=0\n"
    f"{CONTROLLER}- (ip=10.0.0.7, pid=23545) world_rank=1, local_rank=1, node_rank=0\n"
)
GONE = (
    "\x1b[33m(raylet)\x1b[0m A worker died or was killed while executing a task by an unexpected system error. To"
    " troubleshoot the problem, check the logs for the dead worker. Lease ID: 05 Worker ID: 8b Node ID: d1"
    " Worker IP address: 10.0.0.7 Worker port: 36641 Worker PID: 23545 Worker exit type: SYSTEM_ERROR Worker exit"
    " detail: Worker unexpectedly exits with a connection error code 2. End of file.\n"
)
RESET = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.7]:50826: Connection"
    " reset by peer.\n"
)
RAISED = (
    f'{WORKER}Traceback (most recent call last):\n{WORKER}  File "/home/u/train.py", line 27, in train\n'
    f"{WORKER}    loss.backward()\n{WORKER}{RESET}"
)
DIED = (
    "The actor died unexpectedly before finishing this task.\n\tclass_name: RayTrainWorker\n\tactor_id: 6cdf\n"
    "\tpid: 23545\n\tnamespace: c3\n\tip: 10.0.0.7\n"
)
SNIPPETS = (
    "ray.train.WorkerGroupError: Training failed due to worker errors:\n[Rank 0 Error Snippet]:\n"
    'Traceback (most recent call last):\n  File "/home/u/train.py", line 27, in train\n    loss.backward()\n'
    '  File "/venv/torch/_tensor.py", line 623, in backward\n    torch.autograd.backward(\n...\n'
    "... (Output truncated. See individual worker logs for full details) ...\n"
    "eturn Variable._execution_engine.run_backward(  # Calls into the C++ engine\n           ^^^^^^^^^^^^^^^\n"
    f"{RESET}\n[Rank 1 Error Snippet]:\nA worker health check failed.\n{DIED}"
)


def test_workers_are_known_by_what_the_controller_told_of_them() -> None:
    (raised,) = of_kind(parse(STARTED + RAISED), "python.exception")
    (gone,) = of_kind(parse(STARTED + GONE), "launcher.exit")
    assert (raised.rank, gone.rank, gone.pid) == (0, 1, 23545)


def test_of_two_hosts_with_the_same_pid_the_host_decides() -> None:
    both = STARTED + f"{CONTROLLER}- (ip=10.0.0.8, pid=23535) world_rank=2, local_rank=0, node_rank=1\n"
    away = RAISED.replace("pid=23535)", "pid=23535, ip=10.0.0.8)")
    assert [of_kind(parse(both + text), "python.exception")[0].rank for text in (RAISED, away)] == [None, 2]


def test_the_actor_that_a_snippet_tells_of_has_its_rank_and_pid() -> None:
    (gone,) = of_kind(parse(SNIPPETS), "launcher.exit")
    assert (gone.rank, gone.pid) == (1, 23545)


@pytest.mark.parametrize("text", [STARTED + GONE + RAISED, STARTED + GONE + RAISED + SNIPPETS, RAISED + SNIPPETS])
def test_a_worker_that_is_gone_without_a_word_was_killed(tmp_path: Path, text: str) -> None:
    found = verdict(tmp_path, text)
    assert (found.findings[0].kind, found.findings[0].ranks, found.outcome) == ("rank_killed", (1,), "crashed")
    assert "lost the connection to it" in found.summary


def test_who_raised_before_it_was_gone_was_not_killed(tmp_path: Path) -> None:
    own = RAISED.replace("23535", "23545").replace(RESET, "ValueError: bad shard\n")
    found = verdict(tmp_path, STARTED + own + GONE + RAISED)
    assert (found.findings[0].kind, found.findings[0].ranks) == ("rank_crashed", (1,))
