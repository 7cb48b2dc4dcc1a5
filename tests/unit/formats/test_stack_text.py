"""Stacks that somebody saved as files."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from collectors.formats import stack_text

PY_SPY = """Process 14927: /opt/train/python -u train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 14927 (idle): "MainThread"
    pthread_cond_wait (libc.so.6)
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    <module> (train.py:32)
Thread 0x7F1 (active+gil): "loader (3)"
    read_shard (data.py:88)

Process 14928: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Error: Failed to suspend process
    0: Operation not permitted (os error 1)
"""
BARE = """Thread 0x7FA6E7C01740 (idle): "MainThread"
    wait (threading.py:302)
    train (fairseq_cli/train.py:274)
Thread 0x7FA6E7C01741 (active): "worker"
    run (threading.py:870)
"""
EU_STACK = """# eu-stack -p 8841   (rank 1)
TID 8841:
#0  __sched_yield
#1  ncclLocalOpAppend(ncclComm*, ncclProxyConnector*, ncclProxyOp*)
#2  0x00007f2a51b3b8c2 ncclProxySaveOp - /usr/lib/libnccl.so.2
TID 8850:
#0  0x00007f2a51b3b8c2 __poll
"""
GDB = """[New LWP 4713]
0x00007f3 in poll () from /lib64/libc.so.6

Thread 2 (Thread 0x7f88 (LWP 4713) "pt_autograd_0"):
#0  0x00007f3d91eb in __futex_abstimed_wait () from /lib64/libc.so.6
#1  0x00007f3d91ec in ?? ()

Thread 1 (Thread 0x7f99 (LWP 4711) "python"):
#0  0x00007f3d91ea in cuEventQuery () from /usr/lib/libcuda.so.1
#1  c10d::TCPStore::wait (this=0x7f, keys=std::vector of length 1) at /pytorch/TCPStore.cpp:31
"""
BT = """#0  0x00007f3d91ea in poll () from /lib64/libc.so.6
#1  0x00007f3d91eb in ncclProxyProgress () from libnccl.so.2
(gdb) detach
#0  0x00007f3d91ea in read () from /lib64/libc.so.6
#1  main () at job.c:3
"""
FAULTHANDLER = """Timeout (0:05:00)!
Thread 0x00007f3d91ea (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007f3d91eb [MainThread] (most recent call first):
  File "/home/ada/train.py", line 31 in step
  File "/home/ada/train.py", line 90 in <module>
"""
RANKS = f"=== rank 3 on node1 ===\n{BARE}rank 5:\n{BARE}"


class Process(NamedTuple):
    """What must be read of a process: pid, rank, and each thread with its name and frames."""

    pid: int
    rank: int | None
    threads: list[tuple[str, list[str]]]


def readable(saved: stack_text.SavedStack) -> Process:
    threads = [
        (one.name, [f"{each.name} {each.file}" + (f":{each.line}" if each.line else "") for each in one.frames])
        for one in saved.dump.threads
    ]
    return Process(saved.dump.pid, saved.rank, threads)


MAIN_AND_WORKER = [
    ("MainThread", ["wait threading.py:302", "train fairseq_cli/train.py:274"]),
    ("worker", ["run threading.py:870"]),
]
TEXTS = {
    "py-spy": (PY_SPY, [
        Process(14927, None, [
            ("MainThread", ["pthread_cond_wait libc.so.6", "all_reduce torch/distributed/distributed_c10d.py:3252",
                            "<module> train.py:32"]),
            ("loader (3)", ["read_shard data.py:88"]),
        ]),
        Process(14928, None, []),
    ]),
    "py-spy's threads alone": (BARE, [Process(-1, None, MAIN_AND_WORKER)]),
    "eu-stack": (EU_STACK, [
        Process(8841, 1, [
            ("", ["__sched_yield ", "ncclLocalOpAppend(ncclComm*, ncclProxyConnector*, ncclProxyOp*) ",
                  "ncclProxySaveOp /usr/lib/libnccl.so.2"]),
            ("", ["__poll "]),
        ]),
    ]),
    "gdb, all threads": (GDB, [
        Process(4711, None, [
            ("pt_autograd_0", ["__futex_abstimed_wait /lib64/libc.so.6", "?? "]),
            ("python", ["cuEventQuery /usr/lib/libcuda.so.1", "c10d::TCPStore::wait "]),
        ]),
    ]),
    "gdb, bt of two": (BT, [
        Process(-1, None, [("", ["poll /lib64/libc.so.6", "ncclProxyProgress libnccl.so.2"])]),
        Process(-2, None, [("", ["read /lib64/libc.so.6", "main "])]),
    ]),
    "gdb, all threads of two": (GDB + GDB.replace("471", "481"), [
        Process(4711 + at, None, [
            ("pt_autograd_0", ["__futex_abstimed_wait /lib64/libc.so.6", "?? "]),
            ("python", ["cuEventQuery /usr/lib/libcuda.so.1", "c10d::TCPStore::wait "]),
        ]) for at in (0, 100)
    ]),
    "faulthandler": (FAULTHANDLER, [
        Process(-1, None, [
            ("", ["wait /usr/lib/python3.11/threading.py:324", "_bootstrap /usr/lib/python3.11/threading.py:1002"]),
            ("MainThread", ["step /home/ada/train.py:31", "<module> /home/ada/train.py:90"]),
        ]),
    ]),
    "headings with ranks": (RANKS, [Process(-1, 3, MAIN_AND_WORKER), Process(-2, 5, MAIN_AND_WORKER)]),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_processes_threads_and_frames(name: str) -> None:
    text, expected = TEXTS[name]
    found = stack_text.read(text, at=3.0, pid=-1)
    assert [readable(one) for one in found] == expected
    assert all((one.dump.rank_pid, one.dump.at) == (one.dump.pid, 3.0) for one in found)
    assert stack_text.looks_like(text)


def test_what_py_spy_says_of_a_thread_and_of_a_process_that_it_cannot_read() -> None:
    first, second = (one.dump for one in stack_text.read(PY_SPY, at=3.0))
    assert [(thread.active, thread.owns_gil) for thread in first.threads] == [(False, False), (True, True)]
    assert [frame.native for frame in first.threads[0].frames] == [True, False, False]
    assert second.error == "failed: Failed to suspend process"


@pytest.mark.parametrize(
    "text",
    ["step 1\nProcess finished\n", "Thread 3 died\n", "# a heading\n# another\n", "#0-0 (5c0ffee) MISMATCH\n",
     'Fatal Python error: Aborted\n\nThread 0x7f (most recent call first):\n  File "a.py", line 1 in f\n',
     'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'],
)  # fmt: skip
def test_other_texts_are_no_stacks(text: str) -> None:
    assert not stack_text.looks_like(text)
