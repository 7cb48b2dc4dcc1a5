"""Whole logs of runs that are over, from their text to the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder.session import FilesSession


def verdict(folder: Path, text: str = "", name: str = "out.txt", **others: str) -> Verdict:
    """The verdict on a folder with this text in a file, and with other logs by their names."""
    for path, content in {name: text, **{f"{other}.log": content for other, content in others.items()}}.items():
        if content:
            (folder / path).write_text(content)
    return diagnose(FilesSession([folder]).job())


def roots(found: Verdict) -> list[tuple[str, tuple[int, ...]]]:
    """Kinds and ranks of what is told as a cause."""
    return [(finding.kind, finding.ranks) for finding in found.findings if not finding.cause]


RAISED = 'Traceback (most recent call last):\n  File "/w/t.py", line 9, in main\n    go()\nValueError: {}\n'
CUT = 'Traceback (most recent call last):\n  File "/w/t.py", line 9, in main\n    loss.backward()\n'
LAUNCHER = (
    'Traceback (most recent call last):\n  File "/opt/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
    '  File "/opt/lib/python3.8/site-packages/torch/distributed/run.py", line 761, in main\n    run(args)\n'
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
)
FAILED = "E1121 00:12:20 70 api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 26) of binary: python\n"
MEMBER = "Initializing distributed: GLOBAL_RANK: 9, MEMBER: 10/16\n"
HALF = "".join(MEMBER.replace("9", str(rank)).replace("10/16", f"{rank + 1}/8") for rank in range(4))
LIMIT = "slurmstepd: error: *** JOB 26 ON n7 CANCELLED AT 2026-11-25T02:53:05 DUE TO TIME LIMIT ***\n"
WATCHDOG = (
    "[rank{0}]:[E419 10:42:28.1 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600013 milliseconds "
    "before timing out.\n"
)
STATUS = (
    "[rank{0}]:[E419 10:42:28.2 ProcessGroupNCCL.cpp:1537] [PG {1} Rank {0}] Timeout at NCCL work: {2}, last enqueued "
    "NCCL work: {2}, last completed NCCL work: 3.\n"
)
"""``[PG 0 Rank 3]`` names the group, which the line of the time-out does not."""
BOTH = WATCHDOG.format(0) + WATCHDOG.format(1)
BROADCAST = WATCHDOG.replace("ALLREDUCE", "BROADCAST").format(3)
XID = "[Fri Jan 30 10:00:00 2026] NVRM: Xid (PCI:0000:3b:00): {}\n"
REMOVED = XID.format("45, pid=12, name=python, Ch 00000001{}")
BARRIER = "Rank {} is running collective: CollectiveFingerPrint(SequenceNumber={}OpType=BARRIER)"
APART = f"Detected mismatch between collectives on ranks. {BARRIER.format(1, 8)}, but {BARRIER.format(2, 7)}."
"""torch writes no comma in front of the operation if the collective has no tensors (ProcessGroupWrapper.cpp)."""
BLOCK = (
    "t.py FAILED\n------------\nFailures:\n[1]:\n  time      : 2026-05-12_09:27:52\n  host      : n7\n"
    "  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 26)\n  error_file: /tmp/error.json\n"
    '  traceback : Traceback (most recent call last):\n    File "/w/t.py", line 9, in main\n      go()\n'
    "  RuntimeError: {}\n"
)
COMPLETION = (
    "h100-7:19:20 [1] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.7<53249> with error "
    "{}, opcode 32564, len 32564, vendor err 81 (Send)\n"
)
CUDACHECK = "Failed: Cuda error /w/csrc/custom_all_reduce.cuh:455 'an illegal memory access was encountered'\n"
VLLM = "ERROR 07-31 09:09:51 [multiproc_executor.py:284] Worker proc VllmWorker-2 died unexpectedly, shutting down.\n"
RAY = (
    "(raylet) node_manager.cc:3277: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed "
    "due to other reasons at node (ID: 82, IP: 10.0.0.7) over the last time period.\n"
)
RERAISED = (
    RAISED.format("Caught ValueError in DataLoader worker process 3.")
    + 'Original Traceback (most recent call last):\n  File "/w/data.py", line 35, in item\n    x\nValueError: short\n'
)
ENTRY = (
    "[{0}]:\n  time      : 2026-05-12_09:27:52\n  host      : n7\n  rank      : {0} (local_rank: {0})\n"
    "  exitcode  : 1 (pid: 26)\n  error_file: <N/A>\n"
)
TWO_ENDED = f"Failures:\n{ENTRY.format(2)}---------------\nRoot Cause (first observed failure):\n{ENTRY.format(0)}"
ECC = "[E ProcessGroupNCCL.cpp:916] [Rank {}] NCCL watchdog thread terminated with exception: CUDA error: ECC error\n"
CONNECT = "n1:1:2 [0] include/socket.h:361 NCCL WARN Call to connect failed : Connection timed out\n"
QUIET = """I coordination_service.cc:553] /job:worker/replica:0/task:1 has connected to coordination service.
INFO 05-28 14:44:28 [shm_broadcast.py:6] No available shared memory broadcast block found in 60 seconds.
[I Wrapper.cpp:562] [Rank 0] Running collective: CollectiveFingerPrint(SequenceNumber=1277, OpType=ALLREDUCE)
step 100 loss 2.3
"""
PROXY = """# gdb -p 700 -batch -ex bt   (rank 0)
#0  0x00007f1 in sched_yield () from /lib64/libc.so.6
#1  0x00007f2 in cuStreamSynchronize () from /usr/lib/libcuda.so.1
#2  0x00007f3 in at::native::_local_scalar_dense_cuda (self=...) from libtorch_cuda.so
# eu-stack -p 8841   (rank 1)
TID 8841:
#0  __sched_yield
#1  ncclLocalOpAppend(ncclComm*, ncclProxyConnector*, ncclProxyOp*)
#2  ncclProxySaveOp(ncclComm*, ncclProxyOp*, bool*)
#3  ncclGroupEndInternal(ncclSimInfo_v22200*)
#4  ncclAllReduce
"""


@pytest.mark.parametrize(
    ("text", "kind", "ranks", "told"),
    [
        (CUT + LIMIT, "rank_killed", (), "time limit"),
        (RAISED.format("bad shard") + LIMIT, "rank_crashed", (), "bad shard"),
        (BOTH, "watchdog_timeout", (), ""),
        (BOTH + WATCHDOG.format(3)[:150] + "\n", "watchdog_timeout", (), ""),
        (BOTH + BROADCAST + STATUS.format(3, 0, 4), "collective_mismatch", (3,), ""),
        (BOTH + STATUS.format(1, 0, 4), "watchdog_timeout", (), "all ranks that report"),
        (BOTH + STATUS.format(3, 0, 3), "watchdog_timeout", (3,), "3 of 4"),
        (WATCHDOG.format(0) + WATCHDOG.format(1).replace("m=4,", "m=90,") + STATUS.format(1, 7, 90),
         "watchdog_timeout", (), ""),
        (XID.format("79, pid=12, GPU has fallen off the bus."), "gpu_lost", (), "on a node is lost"),
        (REMOVED.format(" caused by previous Xid 149"), "gpu_xid", (), "Xid 149 on GPU 0000:3b:00 of a node"),
        (REMOVED.format(""), "gpu_xid", (), "Xid 45 on GPU 0000:3b:00 of a node: channels"),
        (f"RuntimeError: {APART}\n", "collective_mismatch", (1, 2), "rank 1 BARRIER #8 and rank 2 BARRIER #7"),
        (BLOCK.format(APART), "collective_mismatch", (1, 2), "BARRIER"),
        (BLOCK.format("bad shard"), "rank_crashed", (1,), "RuntimeError: bad shard"),
        (COMPLETION.format(4), "ib_transfer_failed", (), "the rank of GPU 1 failed on h100-7: status 4, peer 10.0.0.7"),
        (COMPLETION.format(12), "ib_retry_exceeded", (), "the rank of GPU 1 on h100-7 got no answer"),
        (COMPLETION.format(5), "nccl_remote_error", (), "lost a peer"),
        (CUDACHECK * 4 + VLLM, "rank_crashed", (2,), "CUDA error: an illegal memory access"),
        (VLLM, "child_failed_no_detail", (2,), "failed first: reported only by its launcher, vllm"),
        (RAY, "limit_reached", (), "host memory on 10.0.0.7: 2 Workers"),
        (RERAISED, "rank_crashed", (), "ValueError: short at /w/data.py:35 in item"),
        (RERAISED.partition("Original")[0], "rank_crashed", (), "worker process 3. at /w/t.py:9 in main"),
        (RAISED.format("no file") * 2 + TWO_ENDED, "rank_crashed", (0, 2), "ranks 0,2 on n7 failed first: Value"),
        (RAISED.format("no file") + RAISED.format("no peer") + TWO_ENDED, "rank_crashed", (0,), "1 other failed after"),
        (ECC.format(1), "gpu_ecc", (1,), "CUDA error on rank 1"),
        (ECC.format(1) + ECC.format(0), "gpu_ecc", (), "CUDA error on a rank"),
        (HALF, "init_hang", (4, 5, 6, 7), "ranks 4-7 of it never began"),
        (HALF + "[rank5]: NCCL version 2.21.5\n", "init_hang", (4, 6, 7), "ranks 0-3,5"),
        (HALF + "step 1 loss 2.3\n" * 30, "", (), ""),
        (HALF + "Training completed.\n", "", (), ""),
        (HALF.replace("/8", "/4"), "", (), ""),
        ("RuntimeError: " + WATCHDOG.format(1).partition("] ")[2] + CUT, "watchdog_timeout", (), ""),
        (RAISED.format("bad shard") + FAILED, "rank_crashed", (1,), "ValueError: bad shard"),
        (MEMBER + RAISED.format("bad shard") + FAILED, "rank_crashed", (), "bad shard"),
        (RAISED.format(1) + CUT + "KeyError: 'x'\n" + FAILED, "rank_crashed", (1,), ""),
        (RAISED.format(1) + CUT + "KeyError: 'x'\n" + FAILED + FAILED.replace("1 (pid: 26", "2 (pid: 27"),
         "rank_crashed", (), ""),
        (LAUNCHER, "child_failed_no_detail", (), ""),
        (CONNECT + "RuntimeError: NCCL Error 2: unhandled system error\n", "nccl_connect_failed", (), ""),
        ('[rank3]: Traceback (most recent call last):\n[rank3]:   File "/app/tra', "child_failed_no_detail", (3,), ""),
        (PROXY, "rank_stuck_in_code", (1,), ""),
        (QUIET, "", (), ""),
        ("Traceback (most recent call last):\n", "", (), ""),
    ],
    ids=["time limit", "raised, then limit", "watchdog", "torn watchdog", "status of the odd rank", "status of one",
         "status of a rank behind", "status of another group",
         "kernel log of an unknown node", "Xid that names the one before", "Xid that names none",
         "fingerprints without tensors", "fingerprints in torchrun's report", "another error in torchrun's report",
         "protection error", "retries exceeded", "flushed", "CUDACHECK of vLLM", "vLLM alone", "Ray's memory monitor",
         "raised again", "raised once", "two ended by one error", "two ended by two errors",
         "watchdog's error without a label", "places in two groups",
         "half of the ranks announced", "one more wrote", "training after that", "finished after that", "all announced",
         "watchdog, cut traceback", "exit told",
         "exit told by one of two nodes",
         "two tracebacks, one exit", "two and two", "launcher alone", "why NCCL failed", "cut in its first frame",
         "spins in NCCL's proxy queue", "nothing wrong", "no frame"],
)  # fmt: skip
def test_the_first_cause_in_a_log(tmp_path: Path, text: str, kind: str, ranks: tuple[int, ...], told: str) -> None:
    found = verdict(tmp_path, text)
    assert roots(found)[:1] == ([(kind, ranks)] if kind else [])
    assert told in found.summary


def test_of_those_who_lost_a_peer_it_is_said_who_left_no_word(tmp_path: Path) -> None:
    lost = "[rank{0}]: RuntimeError: [/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:21177\n"
    for local in range(4):
        folder = tmp_path / "none_4f2k" / "attempt_0" / str(local)
        folder.mkdir(parents=True)
        text = "[rank{0}]: Traceback (most recent call last):\n" + lost if local % 2 else "step 6\n"
        (folder / "stderr.log").write_text(text.format(local))
    (found,) = diagnose(FilesSession([tmp_path]).job()).findings
    assert (found.kind, found.ranks) == ("nccl_remote_error", ())
    assert "no message from ranks 0,2" in found.summary


def test_a_rank_that_had_finished(tmp_path: Path) -> None:
    closed = "Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {member}/4\n" + CUT
    closed += (
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:2\n"
    )
    files = {f"rank{rank}": closed.format(rank=rank, member=rank + 1) for rank in range(3)}
    assert roots(verdict(tmp_path, **files, rank3="Training completed.\n")) == [("rank_left_early", (3,))]


# --- a job's output that begins with what a tool printed ---------------------------------------------------------

SPY = "Process 7: python x.py\nPython v3.11.7\n\nThread 7 (idle)\n    f (x.py:1)\n"


@pytest.mark.parametrize("steps", [12, 1 << 14], ids=["short", "too long to be a tool's"])
def test_a_job_s_output_that_begins_with_stacks_is_read_to_its_end(
    steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hangtop.session.folder.session.LARGEST_OUTPUT", 1 << 17)
    (tmp_path / "spy.txt").write_text(SPY)
    assert FilesSession([tmp_path]).files[0].kind == "stacks"
    (finding,) = verdict(tmp_path, SPY + "step 1 loss 2.0\n" * steps + LIMIT, "spy.txt").findings
    assert (finding.kind, finding.nodes) == ("rank_killed", ("n7",))


# --- faults that a run outlived ----------------------------------------------------------------------------------

ODD = RAISED.replace("ValueError", "ValueError: odd")
OPENING = "loading the tokenizer of this model\nmodel has {} layers of its own\nwriting checkpoints to /ckpt/run\n"
BANNER = "W1121 00:12:00.1 70 run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1\n"


def steps(first: int, last: int) -> str:
    return "".join(f"step {number} loss 2.{number}\n" for number in range(first, last))


def each(prefix: str, text: str) -> str:
    return "".join(f"{prefix}: {line}\n" for line in text.splitlines())


LOGGED = "[2026-11-25 10:30:00,000] [ERROR] [sched.py:690] no rate\n"
FIRST = BANNER + steps(0, 4)
LIMITED = FIRST + each("[rank1]", ODD.format(1)) + LIMIT


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (steps(0, 50) + ODD.format(1) + steps(50, 400), ""),
        (ODD.format(1) + steps(0, 20) + "line of an evaluation\n" * 60 + "Training completed.\n", ""),
        (steps(0, 400) + ODD.format(1), "odd: 1"),
        (steps(0, 50) + ODD.format(1) + steps(40, 52), "odd: 1"),
        (steps(0, 50) + ODD.format(1) + "retrying in 5 s, waiting for the store\n" * 300, "odd: 1"),
        (each("gn01", steps(0, 9) + ODD.format(1)) + each("gn02", steps(0, 400)), "odd: 1"),
        (OPENING.format(8) + ODD.format(1) + steps(0, 3), "odd: 1"),
        (LIMITED + BANNER + steps(0, 9), ""),
        (LIMITED + BANNER + steps(0, 9) + each("[rank0]", ODD.format(2)), "odd: 2"),
        (FIRST + ODD.format(1) + BANNER + steps(0, 2), ""),
        (FIRST + BANNER + each("[rank1]", ODD.format(1)) + FAILED, "odd: 1"),
        (LOGGED + ODD.format(1) + LOGGED.replace("ERROR", "INFO") * 60, ""),
        (LOGGED + ODD.format(1) + LOGGED.replace("ERROR", "INFO"), "odd: 1"),
    ],
    ids=["counted on", "finished", "nothing behind", "buffered steps", "heartbeats",
         "another host's steps", "too few steps", "launched anew", "failed anew", "one process anew",
         "launchers of two nodes", "logged, and went on", "logged at the end"],
)  # fmt: skip
def test_a_fault_that_the_run_outlived_is_none(tmp_path: Path, text: str, told: str) -> None:
    found = verdict(tmp_path, text, "out.log" if "[rank" in text else "rank0.log")
    assert bool(found.findings) == bool(told)
    assert told in found.summary


# --- Ray Train 2.60 ----------------------------------------------------------------------------------------------

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
RESET = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.7]:50826: Connection reset by peer.\n"  # noqa: E501
LOST = "".join(f"{WORKER}{line}\n" for line in (CUT + RESET).splitlines())
SNIPPETS = (
    f"ray.train.WorkerGroupError: Training failed due to worker errors:\n[Rank 0 Error Snippet]:\n{CUT}{RESET}\n"
    "[Rank 1 Error Snippet]:\nA worker health check failed.\nThe actor died unexpectedly before finishing this task.\n"
    "\tclass_name: RayTrainWorker\n\tactor_id: 6cdf\n\tpid: 23545\n\tnamespace: c3\n\tip: 10.0.0.7\n"
)


@pytest.mark.parametrize("text", [STARTED + GONE + LOST, STARTED + GONE + LOST + SNIPPETS, LOST + SNIPPETS])
def test_a_worker_that_is_gone_without_a_word_was_killed(tmp_path: Path, text: str) -> None:
    found = verdict(tmp_path, text)
    assert (found.findings[0].kind, found.findings[0].ranks, found.outcome) == ("rank_killed", (1,), "crashed")
    assert "lost the connection to it" in found.summary


def test_who_raised_before_it_was_gone_was_not_killed(tmp_path: Path) -> None:
    own = LOST.replace("23535", "23545").replace(RESET, "ValueError: bad shard\n")
    assert roots(verdict(tmp_path, STARTED + own + GONE + LOST))[0] == ("rank_crashed", (1,))
