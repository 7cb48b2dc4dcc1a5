"""Words that no rule knows by name: what is taken for the end of a program, and what is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.logs.families import errors
from collectors.node.logs.records import native
from tests.support.logs import kinds, of_kind, only, parse


@pytest.mark.parametrize(
    ("line", "data"),
    [
        (
            "it then says `ValueError: bad shard 3` on all nodes",
            {"told": "exception", "type": "ValueError", "message": "bad shard 3"},
        ),
        ("worker said: mylib.errors.ShardFailure: gone", {"told": "exception", "type": "ShardFailure"}),
        ("rank 5 exited with code 3", {"told": "exit", "exitcode": 3, "about": 5}),
        ("Process 4711 exited with code -11", {"told": "exit", "exitcode": -11, "signal": "SEGV"}),
        ("    Exit Code:    137", {"told": "exit", "exitcode": 137, "signal": "KILL"}),
        ("worker 3 was killed by signal 9", {"told": "exit", "signal": "KILL"}),
        ("a non-zero exit code. The job has been aborted.", {"told": "exit"}),
        ("UCC  ERROR timeout 30 sec. has expired on collective allreduce", {"told": "timeout"}),
        ("[Rank 3] Collective operation timed out after 600000 ms", {"told": "timeout", "about": 3}),
        ("2026-11-22 10:00:00,123 ERROR trainer.py:88 shape differs in weights", {"told": "level"}),
        ("E1122 10:00:00.1 88 program.cc:13] Halt is unexpected here", {"told": "level"}),
        (": E external/xla/pjrt/client.cc:2732] Execution of a replica stopped", {"told": "level"}),
        ("Got fatal signal from worker processes, shutting down.", {"told": "exit"}),
        ("distributed.nanny - WARNING - Worker exceeded 95% memory budget. Restarting", {"told": "memory"}),
        ("distributed.scheduler.KilledWorker: ('read-7', <Worker 3>)", {"told": "exception", "type": "KilledWorker"}),
        ("mylib.ShardFailure: gone", {"told": "exception", "type": "ShardFailure"}),
        ("the worker of shard 3 was killed", {"told": "exit"}),
        ("RCCL error in: /x/ProcessGroup.cpp:33, a word of its own", {"told": "stack", "signature": "nccl"}),
        ('e-packages/x/stage3.py", line 435, in defragment', {"told": "stack", "signature": "user"}),
        ("stderr: │ ❱ 785 │   elastic_launch(   │", {"told": "stack", "signature": "child_failed"}),
    ],
)
def test_what_is_taken_for_an_end(line: str, data: dict[str, object]) -> None:
    event = only(parse(line + "\n"), "log.error")
    assert {name: event.data.get(name) for name in data} == data


@pytest.mark.parametrize(
    "line",
    [
        "rank 5 exited with code 0",
        "Exit Code: 0",
        "2026-11-22 10:00:00,123 ERROR hub.py:88 no route to the hub, retrying in 5 s",
        "E1122 10:00:00.1 88 cuda_dnn.cc:8] Unable to register cuDNN factory: one is already registered",
        "E cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no device is detected",
        "loss_error: 0.33 validation_error=0.12",
        "the timeout of a collective is 600 s",
        "signal handlers installed",
        "memory budget of each worker: 64 GiB",
        "2026-11-22 10:00:00,123 ERROR plugin.py:8 failed to load an optional plugin, it is ignored",
        "Epoch 3: 100%|████| 10/10 [00:05<00:00, 2.00it/s, error=0.1]",
    ],
)
def test_what_is_left_alone(line: str) -> None:
    assert kinds(parse(line + "\n")) == []


def test_nothing_is_said_twice() -> None:
    """Where a family knows the line, hearsay says nothing of it."""
    assert kinds(parse("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")).count("log.error") == 0
    assert "log.error" not in kinds(parse("srun: error: n1: task 3: Exited with exit code 1\n"))
    assert kinds(parse("KeyError: 'labels'\n")) == ["python.exception"]


TORCH = (
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f6 in /x/libc10.so)\n"
    "frame #1: c10::cuda::c10_cuda_check_implementation(int, char const*) + 0x118 (0x7fc in /x/libc10_cuda.so)\n"
)


def test_a_stack_of_torch_without_its_message() -> None:
    event = only(parse("".join("[rank2]:" + line + "\n" for line in TORCH.splitlines())), "log.error")
    assert (event.rank, event.data["signature"], event.data["told"]) == (2, "cuda", "stack")


@pytest.mark.parametrize(
    "text",
    [
        "    @     0x7f2c3c3c7980  (unknown)\n    @     0x7f2bd0f9d3a1  ncclGroupEnd\n",
        "10.0.0.2 [1]     @     0x7f2382eacb4c       1072  xla::Rendezvous()\n10.0.0.2 [1]     @     0x7f23b285  x\n",
        "[n1:08869] [ 8] /x/lib.so(+0x4064a)[0x7fcfc3cc164a]\n[n1:08869] [ 9] /x/c.so(+0xafc5c)[0x7fcefb5]\n",
    ],
)
def test_other_stacks(text: str) -> None:
    assert only(parse(text), "log.error").data["told"] == "stack"


def test_where_an_exception_was_raised() -> None:
    text = "Exception raised from doWait at /x/TCPStore.cpp:600 (most recent call first):\n"
    assert "doWait at /x/TCPStore.cpp:600" in str(only(parse(text), "log.error").data["message"])


def test_one_frame_that_tells_nothing_is_nothing() -> None:
    assert of_kind(parse("frame #3: clone + 0x6d (0x7f in libc.so)\n"), "log.error") == []


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    for said in errors.read(text):
        assert said.data["told"] in ("exception", "memory", "exit", "timeout", "level", "stack")
    block = native.NativeStack()
    for line in text.splitlines():
        block.take(line)
    block.end()


@pytest.mark.parametrize(
    "line",
    [
        "No heartbeat is sent while compiling", "lost heartbeat detection is enabled", "watchdog: no hang detected",
        "allreduce timeout after 1800 s is the default", "the expected exit code 1 of the dry run came",
        "got signal SIGUSR1, saving a checkpoint", "will be killed by signal 9 after 30 s of grace",
        "memory limit exceeded handling: off", "GPU memory exceeded 90 % of the limit at peak",
        "worker died count 0", "process group died: False", "Workers crashed so far: 0",
        "ERROR level logging goes to /tmp/err.log", "log level ERROR is set for transformers",
        "CRITICAL path length is 12, 3 stages", "catching ValueError: skip the sample",
        "handled TimeoutError: reconnecting to the store",
    ],
)  # fmt: skip
def test_settings_and_counts_of_none_are_no_ends(line: str) -> None:
    assert parse(line + "\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "rank 3 is on node n7: exited with code 1", "exited with code 1. More details can be found in x.log",
        "Expected zero exit code but process died with exit code -9", "worker died, its signal handler was set late",
        "allreduce timed out after 1800 s", "no heartbeat from worker 3 for 600 s", "got signal SIGABRT",
        "host memory exceeded the limit of the job", "CRITICAL the store of all ranks is gone",
    ],
)  # fmt: skip
def test_ends_beside_such_words(line: str) -> None:
    assert [event.kind for event in parse(line + "\n")] == ["log.error"]
