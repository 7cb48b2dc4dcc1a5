"""Several looks at a rank, its threads and its helpers, and ranks that cannot be looked into."""

from __future__ import annotations

import pytest

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.stacks.activity import activity
from tests.support.stacks import SCRIPT, STDLIB, TORCH, dump, main_dump, thread

ALL_REDUCE = f"all_reduce {TORCH}/distributed/distributed_c10d.py:2806"
BACKWARD = f"_engine_run_backward {TORCH}/autograd/graph.py:768"
STEP = f"train_step {SCRIPT}:44"


# --- several looks -----------------------------------------------------------------------------------------------


def test_a_wait_that_stands_still_is_frozen_and_blocked_since_its_first_look() -> None:
    doing = activity([main_dump(ALL_REDUCE, STEP, at=at, cpu=5.0) for at in (10.0, 11.0, 13.5)])
    assert (doing.moving, doing.cpu, doing.since, doing.at, len(doing.readings)) == (False, 0.0, 10.0, 13.5, 3)


def test_a_busy_loop_moves_and_computes() -> None:
    inner = [(f"measure {SCRIPT}:70",), (), (f"sort_key {SCRIPT}:80", f"measure {SCRIPT}:71")]
    looks = [
        main_dump(*extra, f"pack {SCRIPT}:{60 + index}", STEP, at=float(index), cpu=float(index), syscall="none")
        for index, extra in enumerate(inner)
    ]
    doing = activity(looks)
    assert (doing.moving, doing.cpu, doing.waits) == (True, 1.0, "nothing")
    assert not doing.needs_native


@pytest.mark.parametrize(
    ("frames", "looks", "left"),
    [
        ([f"select {STDLIB}/selectors.py:415", f"Popen._communicate {STDLIB}/subprocess.py:2108"], 1, False),
        ([f"wait {STDLIB}/threading.py:327", f"_shutdown {STDLIB}/threading.py:1590"], 1, True),
        ([f"call_function {TORCH}/_dynamo/variables/builtin.py:9", f"helper {SCRIPT}:4"], 1, False),
        ([], 2, True),
        ([], 1, False),
    ],
    ids=[
        "a wait that lost its outer frames",
        "Python's end",
        "work that lost them",
        "no frame, twice",
        "no frame, once",
    ],
)
def test_a_main_thread_at_pythons_end_or_without_a_frame_has_left_the_program(
    frames: list[str], looks: int, left: bool
) -> None:
    seen = [dump(thread(*frames), at=float(look)) for look in range(looks)]
    assert (activity(seen).kind == "shutdown") is left


# --- threads -----------------------------------------------------------------------------------------------------

STARTED = (f"Thread.run {STDLIB}/threading.py:982", f"Thread._bootstrap {STDLIB}/threading.py:1002")


def test_autograds_thread_is_judged_where_main_waits_for_it() -> None:
    main = thread(BACKWARD, STEP, f"<module> {SCRIPT}:90")
    hook = thread(
        ALL_REDUCE,
        f"_post_backward_hook {TORCH}/distributed/fsdp/_runtime_utils.py:766",
        name="", tid=101,
    )  # fmt: skip
    doing = activity([dump(main, hook)])
    assert (doing.kind, doing.op, doing.thread) == ("collective", "all_reduce", "autograd")


def test_of_an_actors_threads_the_one_counts_in_which_its_framework_runs_the_job() -> None:
    ray = f"{TORCH.removesuffix('/torch')}/ray"
    main = thread(f"Worker.main_loop {ray}/_private/worker.py:1069",
                  f"<module> {ray}/_private/workers/default_worker.py:323")  # fmt: skip
    runs = f"ThreadRunner.run.<locals>._run_target {ray}/train/v2/_internal/execution/thread_runner.py:37"
    trains = thread(f"read_shard {SCRIPT}:50", runs, *STARTED, name="TrainingThread", tid=101)
    logs = thread(f"Tracker.run {SCRIPT}:36", *STARTED, name="tracker", tid=102)
    assert activity([dump(main, logs, trains)]).where == "read_shard (train.py:50)"


def test_the_holder_of_the_gil() -> None:
    busy = thread(f"compress {SCRIPT}:30", name="uploader", tid=101, gil=True)
    waiting = thread("take_gil /usr/bin/python3.10", STEP, f"<module> {SCRIPT}:90")
    assert activity([dump(waiting, busy)]).gil == "uploader"


# --- helpers -----------------------------------------------------------------------------------------------------

POOL = f"{STDLIB}/multiprocessing"
RUNS = (f"BaseProcess.run {POOL}/process.py:108", f"BaseProcess._bootstrap {POOL}/process.py:314")
JOIN = (f"Popen.poll {POOL}/popen_fork.py:27", f"Process.join {POOL}/process.py:149", f"Saver.save {SCRIPT}:60")
RECEIVES = (f"_recv {POOL}/connection.py:395", f"recv {POOL}/connection.py:250")


def joins(waiting_on: str) -> StackDump:
    return main_dump(*JOIN, syscall="wait4")._replace(waiting_on=waiting_on)


def child(pid: int, *frames: str, syscall: str, waiting_on: str = "") -> StackDump:
    return dump(thread(*frames, *RUNS), pid=pid, rank_pid=100, syscall=syscall, waiting_on=waiting_on)


SERVER = child(101, f"socket.accept {STDLIB}/socket.py:294", f"serve {SCRIPT}:9", syscall="accept4",
               waiting_on="tcp 0.0.0.0:0")  # fmt: skip
READER = child(102, f"prefetch {SCRIPT}:20", syscall="read", waiting_on="/data/a.tar")
WRITER = child(103, f"writer {SCRIPT}:99", syscall="openat", waiting_on="/ckpt/model.pt, to write")
IDLE = child(104, *RECEIVES, f"env_main {SCRIPT}:12", syscall="read")
ASKS = child(105, *RECEIVES, f"fetch {SCRIPT}:40", f"env_main {SCRIPT}:12", syscall="read")


@pytest.mark.parametrize(
    ("waiting_on", "helpers", "where", "on"),
    [
        ("process 103", [SERVER, READER, WRITER], "writer (train.py:99)", "/ckpt/model.pt, to write"),
        ("process 101", [SERVER, READER], "serve (train.py:9)", "tcp 0.0.0.0:0"),
        ("process 77", [SERVER, READER], "prefetch (train.py:20)", "/data/a.tar"),
        ("", [SERVER, READER], "prefetch (train.py:20)", "/data/a.tar"),
        ("", [SERVER], "Saver.save (train.py:60)", ""),
        ("", [IDLE], "Saver.save (train.py:60)", ""),
        ("", [IDLE, ASKS], "fetch (train.py:40)", ""),
    ],
    ids=["it is told", "a server that is told", "its child is a shell", "it is not told", "only a server",
         "only one that waits for its orders", "one that asks for something itself"],
)  # fmt: skip
def test_a_rank_is_where_the_process_is_that_it_waits_for(
    waiting_on: str, helpers: list[StackDump], where: str, on: str
) -> None:
    doing = activity([joins(waiting_on), *helpers])
    assert (doing.where, doing.waiting_on, doing.waits) == (where, on, "helper")
