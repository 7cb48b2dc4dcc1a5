"""Several looks at a rank, its threads, and ranks that cannot be looked into."""

from __future__ import annotations

import pytest

from collectors.samples.stacks import ThreadStack
from hangtop.diagnosis.stacks import activity
from tests.support.stacks import SCRIPT, STDLIB, TORCH, dump, main_dump, thread

ALL_REDUCE = f"all_reduce {TORCH}/distributed/distributed_c10d.py:2806"
BACKWARD = f"_engine_run_backward {TORCH}/autograd/graph.py:768"
STEP = f"train_step {SCRIPT}:44"


# --- several looks -----------------------------------------------------------------------------------------------


def test_a_wait_that_stands_still_is_frozen_and_blocked_since_its_first_look() -> None:
    doing = activity([main_dump(ALL_REDUCE, STEP, at=at, cpu=5.0) for at in (10.0, 11.0, 13.5)])
    assert (doing.moving, doing.cpu, doing.since, doing.at, doing.looks) == (False, "blocked", 10.0, 13.5, 3)


def test_a_rank_that_is_ready_to_run_and_is_given_no_cpu_is_not_blocked() -> None:
    looks = [main_dump(f"pack {SCRIPT}:60", STEP, at=at, cpu=5.0, syscall="none") for at in (10.0, 11.0)]
    assert activity([look._replace(state="R") for look in looks]).cpu == "unknown"
    assert activity(looks).cpu == "blocked"


def test_a_busy_loop_is_named_by_the_function_that_it_does_not_leave() -> None:
    inner = [(f"measure {SCRIPT}:70",), (), (f"sort_key {SCRIPT}:80", f"measure {SCRIPT}:71")]
    looks = [
        main_dump(*extra, f"pack {SCRIPT}:{60 + index}", STEP, at=float(index), cpu=float(index), syscall="none")
        for index, extra in enumerate(inner)
    ]
    doing = activity(looks)
    assert (doing.moving, doing.cpu, doing.waits) == (True, "busy", "nothing")
    assert doing.where == "pack (train.py:62)"
    assert not doing.native_would_tell


def test_a_torn_stack_of_one_that_computes_is_no_end_of_its_program() -> None:
    inner = thread(f"call_function {TORCH}/_dynamo/variables/builtin.py:9", f"helper {SCRIPT}:4")
    assert activity([dump(inner, state="R", syscall="none")]).kind != "shutdown"
    assert activity([dump(inner, state="S", syscall="futex")]).kind == "shutdown", "its exit handlers wait"


# --- threads -----------------------------------------------------------------------------------------------------


def test_autograds_thread_is_judged_where_main_waits_for_it() -> None:
    main = thread(BACKWARD, STEP, f"<module> {SCRIPT}:90")
    hook = thread(
        ALL_REDUCE,
        f"_post_backward_hook {TORCH}/distributed/fsdp/_runtime_utils.py:766",
        name="", tid=101,
    )  # fmt: skip
    doing = activity([dump(main, hook)])
    assert (doing.kind, doing.op, doing.thread) == ("collective", "all_reduce", "autograd")


def test_a_python_thread_is_not_taken_for_autograds() -> None:
    main = thread(BACKWARD, STEP, f"<module> {SCRIPT}:90")
    other = thread(ALL_REDUCE, f"run {STDLIB}/threading.py:982", f"_bootstrap {STDLIB}/threading.py:1002", tid=101)
    doing = activity([dump(main, other._replace(name="Thread-1"))])
    assert (doing.kind, doing.thread) == ("backward", "main")


RAY = f"{TORCH.removesuffix('/torch')}/ray"


def actor(*frames: str) -> tuple[ThreadStack, ThreadStack]:
    """Main thread of an actor, and the thread in which its framework runs the job."""
    main = thread(f"Worker.main_loop {RAY}/_private/worker.py:1069",
                  f"<module> {RAY}/_private/workers/default_worker.py:323")  # fmt: skip
    runner = f"ThreadRunner.run.<locals>._run_target {RAY}/train/v2/_internal/execution/thread_runner.py:37"
    start = (f"run {STDLIB}/threading.py:982", f"_bootstrap {STDLIB}/threading.py:1002")
    return main, thread(*frames, runner, *start, name="TrainingThread", tid=101)


def test_the_thread_that_a_framework_runs_the_job_in_is_judged() -> None:
    """Though the job's own code has started another one."""
    own = thread(f"refresh {SCRIPT}:70", f"run {STDLIB}/threading.py:982", name="Thread-1", tid=102)
    for threads in [(*actor(STEP), own), (own, *reversed(actor(STEP)))]:
        doing = activity([dump(*threads, syscall="epoll_wait")])
        assert (doing.where, doing.thread) == ("train_step (train.py:44)", "python")


def test_the_holder_of_the_gil() -> None:
    busy = thread(f"compress {SCRIPT}:30", name="uploader", tid=101, gil=True)
    waiting = thread("take_gil /usr/bin/python3.10", STEP, f"<module> {SCRIPT}:90")
    doing = activity([dump(waiting, busy)])
    assert doing.gil is not None
    assert (doing.gil.name, doing.gil.where) == ("uploader", "compress (train.py:30)")


# --- no frames ---------------------------------------------------------------------------------------------------


def test_a_rank_that_refuses_is_unknown_with_its_evidence() -> None:
    refused = dump(
        error="denied: Failed to suspend process; EPERM", state="D", wchan="nfs_wait_bit_killable", syscall=""
    )
    doing = activity([refused])
    assert (doing.kind, doing.error, doing.said) == ("unknown", "denied", "Failed to suspend process; EPERM")
    assert (doing.state, doing.wchan, doing.frames) == ("D", "nfs_wait_bit_killable", ())


def test_the_newest_look_counts_even_when_it_has_no_frames() -> None:
    assert activity([main_dump(ALL_REDUCE, at=1.0), dump(error="gone: no such process", at=2.0)]).error == "gone"


# --- anything ----------------------------------------------------------------------------------------------------

NO_NUMBERS = ("nan", "1e999", "-1", "٣", "9" * 5000, "1" + "." * 2, "None", "")


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: value[:8] or "empty")
def test_arguments_that_no_honest_node_sends_tell_nothing(value: str) -> None:
    asked = main_dump(f"recv {TORCH}/distributed/distributed_c10d.py:2400", f"main {SCRIPT}:30")
    [main] = asked.threads
    told = [each._replace(arguments={"src": value}) for each in main.frames]
    doing = activity([asked._replace(threads=[main._replace(frames=told)])])
    assert (doing.kind, doing.peer) == ("p2p", None)


def test_a_worker_that_waits_for_its_orders_is_not_where_the_rank_is() -> None:
    """Of two workers one was killed: the other, at its pipe in the function that it was started to run, is idle."""
    processes = f"{STDLIB}/multiprocessing"
    received = (f"_recv {processes}/connection.py:395", f"recv {processes}/connection.py:250")
    rank = main_dump(*received, f"step {SCRIPT}:27", f"run {SCRIPT}:70", syscall="read")
    started = (f"BaseProcess.run {processes}/process.py:108", f"BaseProcess._bootstrap {processes}/process.py:314")
    idle = dump(thread(*received, f"env_main {SCRIPT}:12", *started), pid=101, rank_pid=100, syscall="read")
    doing = activity([rank, idle])
    assert (doing.where, doing.helper_pid, doing.waits) == ("step (train.py:27)", None, "helper")
    asks = dump(
        thread(*received, f"fetch {SCRIPT}:40", f"env_main {SCRIPT}:12", *started),
        pid=102,
        rank_pid=100,
        syscall="read",
    )
    doing = activity([rank, idle, asks])
    assert (doing.where, doing.helper_pid) == ("fetch (train.py:40)", 102), "that one waits for an answer"


PREFETCH = thread(
    f"Condition.wait {STDLIB}/threading.py:327",
    f"Queue.put {STDLIB}/queue.py:140",
    f"Prefetcher.fill {SCRIPT}:21",
    f"Thread.run {STDLIB}/threading.py:982",
    name="prefetch",
    tid=101,
)
"""Fills a queue that nobody empties any more."""


@pytest.mark.parametrize(
    "wait", [f"Event.wait {STDLIB}/threading.py:607", f"Semaphore.acquire {STDLIB}/threading.py:450"]
)
def test_a_thread_at_its_queue_keeps_nothing_from_anybody(wait: str) -> None:
    main = thread(wait, f"roll_out {SCRIPT}:61", f"<module> {SCRIPT}:90")
    doing = activity([dump(main, PREFETCH, syscall="futex")])
    assert (doing.kind, doing.where, doing.holder) == ("lock", "roll_out (train.py:61)", None)
    flush = thread(f"Ledger.flush {SCRIPT}:30", f"Thread.run {STDLIB}/threading.py:982", name="ledger", tid=102)
    held = activity([dump(main, PREFETCH, flush, syscall="futex")])
    assert held.holder is not None
    assert held.holder.where == "Ledger.flush (train.py:30)"
