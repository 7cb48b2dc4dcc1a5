"""Whole logs and saved outputs of runs that are over, from their text to the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session
from tests.support.saved import roots, verdict


def test_a_finished_run_is_no_mismatch(tmp_path: Path) -> None:
    line = "n1:{pid}:9 [0] NCCL INFO AllReduce: opCount {n:x} sendbuff 0x1 recvbuff 0x1 count 4 datatype 7 op 0 root 0 comm 0x{pid} [nranks=2] stream 0x1\n"  # noqa: E501
    ahead = "".join(line.format(pid=11, n=n) for n in range(9)) + "".join(line.format(pid=12, n=n) for n in range(7))
    init = "n1:{pid}:9 [0] NCCL INFO ncclCommInitRank comm 0x{pid} rank {rank} nranks 2 cudaDev 0 busId 1 commId 0xab - Init COMPLETE\n"  # noqa: E501
    log = init.format(pid=11, rank=0) + init.format(pid=12, rank=1) + ahead
    assert roots(verdict(tmp_path, a=log))[0][0] == "collective_mismatch"
    assert verdict(tmp_path, a=log + "Training completed.\n").outcome == "healthy"


CLOSED = """Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {member}/4
Traceback (most recent call last):
  File "/w/train.py", line 10, in main
    dist.all_reduce(t)
RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:21177
"""


def test_of_those_who_lost_a_peer_it_is_said_who_left_no_word(tmp_path: Path) -> None:
    lost = "[rank{0}]: RuntimeError: [/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:21177\n"
    for local in range(4):
        folder = tmp_path / "none_4f2k" / "attempt_0" / str(local)
        folder.mkdir(parents=True)
        text = "[rank{0}]: Traceback (most recent call last):\n" + lost if local % 2 else "step 6\n"
        (folder / "stderr.log").write_text(text.format(local))
    (found,) = diagnose(files_session([tmp_path]).job()).findings
    assert (found.kind, found.ranks) == ("nccl_remote_error", ())
    assert "of ranks 0,2 there is no word" in found.summary


def test_a_rank_that_had_finished(tmp_path: Path) -> None:
    files = {f"rank{rank}": CLOSED.format(rank=rank, member=rank + 1) for rank in range(3)}
    found = verdict(tmp_path, **files, rank3="Training completed.\n")
    assert roots(found) == [("rank_left_early", (3,))]


CUT = 'Traceback (most recent call last):\n  File "/w/t.py", line 9, in main\n    loss.backward()\n'


def test_why_a_batch_system_ended_it_stands_before_a_cut_traceback(tmp_path: Path) -> None:
    cancelled = "slurmstepd: error: *** STEP 12.0 ON n7 CANCELLED AT 2024-03-01T10:00:00 DUE TO TIME LIMIT ***\n"
    found = verdict(tmp_path, a=CUT + cancelled + "srun: error: n7: tasks 2-3: Exited with exit code 1\n")
    assert (roots(found)[0][0], "time limit" in found.summary) == ("rank_killed", True)
    whole = CUT + "ValueError: bad shard\n"
    assert roots(verdict(tmp_path, a=whole + cancelled))[0][0] == "rank_crashed"


def test_a_hang_that_the_watchdog_ended_is_a_hang(tmp_path: Path) -> None:
    text = "[rank{0}]:[E419 10:42:28.1 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600013 milliseconds before timing out.\n"  # noqa: E501
    assert verdict(tmp_path, a=text.format(0) + text.format(1)).outcome == "hung"


def test_nobody_is_blamed_where_nothing_is_wrong(tmp_path: Path) -> None:
    text = """I coordination_service.cc:553] /job:worker/replica:0/task:1 has connected to coordination service.
INFO 05-28 14:44:28 [shm_broadcast.py:6] No available shared memory broadcast block found in 60 seconds.
[I Wrapper.cpp:562] [Rank 0] Running collective: CollectiveFingerPrint(SequenceNumber=1277, OpType=ALLREDUCE)
step 100 loss 2.3
"""
    assert verdict(tmp_path, a=text).findings == ()


def test_a_traceback_without_a_rank_is_of_the_one_whose_exit_is_told(tmp_path: Path) -> None:
    failed = "ERROR:elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 1 (pid: 26) of binary: p\n"
    whole = CUT + "ValueError: bad shard\n"
    found = verdict(tmp_path, a=whole + failed)
    assert roots(found) == [("rank_crashed", (1,))]
    assert "ValueError: bad shard" in found.summary
    two = whole + CUT + "KeyError: 'x'\n"  # whose is which, nobody knows
    both = verdict(tmp_path, a=two + failed)
    assert roots(both) == [("rank_crashed", (1,))]
    several = failed + failed.replace("local_rank: 1 (pid: 26)", "local_rank: 2 (pid: 27)")
    assert roots(verdict(tmp_path, a=two + several)) == [("rank_crashed", ())]


LAUNCHER = (
    'Traceback (most recent call last):\n  File "/opt/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
    '  File "/opt/lib/python3.8/site-packages/torch/distributed/run.py", line 761, in main\n    run(args)\n'
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
)


def test_a_launcher_s_traceback_alone(tmp_path: Path) -> None:
    assert roots(verdict(tmp_path, LAUNCHER)) == [("child_failed_no_detail", ())]


def test_torn_time_outs_compare_with_nothing(tmp_path: Path) -> None:
    line = "[rank{}]:[E PG.cpp:6] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600) ran for 700 milliseconds\n"  # noqa: E501
    whole = "".join(line.format(rank, rank) for rank in range(3))
    torn = line.format(3, 3)[:108]
    assert [kind for kind, _ in roots(verdict(tmp_path, whole + torn + "\n"))] == ["watchdog_timeout"]


def test_why_nccl_failed_stands_before_that_it_did(tmp_path: Path) -> None:
    warned = "n1:1:2 [0] include/socket.h:361 NCCL WARN Call to connect failed : Connection timed out\n"
    assert [
        kind for kind, _ in roots(verdict(tmp_path, warned + "RuntimeError: NCCL Error 2: unhandled system error\n"))
    ] == ["nccl_connect_failed"]


def test_a_traceback_that_is_cut_within_its_first_frame(tmp_path: Path) -> None:
    assert roots(verdict(tmp_path, '[rank3]: Traceback (most recent call last):\n[rank3]:   File "/app/tra')) == [
        ("child_failed_no_detail", (3,))
    ]
    assert roots(verdict(tmp_path, "Traceback (most recent call last):\n")) == []


def test_a_cut_traceback_says_less_than_the_watchdog(tmp_path: Path) -> None:
    late = (
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=9) ran"
    )
    cut = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    step(batch)\n'
    assert verdict(tmp_path, f"RuntimeError: {late} for 9 milliseconds before timing out.\n{cut}").findings[0].kind == (
        "watchdog_timeout"
    )


RAISED = 'Traceback (most recent call last):\n  File "/x/train.py", line 3, in f\n    go()\nValueError: bad shard\n'


def test_a_log_with_a_hole_is_read_and_a_program_is_not(tmp_path: Path) -> None:
    (tmp_path / "out.log").write_bytes(b"\0" * 70 + b"step 1\n" + b"\0" * 200 + RAISED.encode())
    (tmp_path / "core.bin").write_bytes(bytes(range(256)) * 40 + b"\0" * 4096)
    session = files_session([tmp_path])
    assert [file.why for file in session.files if file.why] == ["binary, and no kind that is known"]
    assert [finding.kind for finding in diagnose(session.job()).findings] == ["rank_crashed"]


SMI_TABLE = (
    "Sun Aug 17 00:40:32 2025       \n"
    "+-----------------------------------------------------------------------------+\n"
    "| NVIDIA-SMI 535.129.03    Driver Version: 535.129.03    CUDA Version: 12.2   |\n"
    "|-------------------------------+----------------------+----------------------+\n"
    "|   0  NVIDIA H800         On   | 00000000:D1:00.0 Off |                    0 |\n"
    "| N/A   32C    P0    67W / 700W |      4MiB / 81559MiB |      0%      Default |\n"
    "+-----------------------------------------------------------------------------+\n"
)
LIST = "GPU 0: NVIDIA H800 (UUID: GPU-1)\nGPU 1: NVIDIA H800 (UUID: GPU-2)\n"
STEPS = "".join(f"step {number} loss 2.{number}\n" for number in range(12))
ENDED = STEPS + "slurmstepd: error: *** JOB 26 ON n7 CANCELLED AT 2026-11-25T02:53:05 DUE TO TIME LIMIT ***\n"


@pytest.mark.parametrize("head", [SMI_TABLE, LIST, "$ nvidia-smi\n" + SMI_TABLE])
def test_a_job_s_output_that_begins_with_its_gpus_is_read_to_its_end(head: str, tmp_path: Path) -> None:
    (finding,) = verdict(tmp_path, head + ENDED).findings
    assert (finding.kind, finding.nodes) == ("rank_killed", ("n7",))


def test_a_log_of_many_megabytes_below_a_table_is_a_log(tmp_path: Path) -> None:
    (finding,) = verdict(tmp_path, SMI_TABLE + "step 1 loss 2.0\n" * (1 << 20) + ENDED).findings
    assert finding.kind == "rank_killed"


def test_a_table_alone_and_one_with_a_prompt_are_tables(tmp_path: Path) -> None:
    for text in (SMI_TABLE, "$ nvidia-smi\n" + SMI_TABLE, SMI_TABLE * 3):
        (tmp_path / "smi.txt").write_text(text)
        (file,) = files_session([tmp_path]).files
        assert file.kind == "nvidia-smi output"


WAITS = """#0  0x00007f1 in sched_yield () from /lib64/libc.so.6
#1  0x00007f2 in cuStreamSynchronize () from /usr/lib/libcuda.so.1
#2  0x00007f3 in at::native::_local_scalar_dense_cuda (self=...) from libtorch_cuda.so
"""
SPINS = """#0  __sched_yield
#1  ncclLocalOpAppend(ncclComm*, ncclProxyConnector*, ncclProxyOp*)
#2  ncclProxySaveOp(ncclComm*, ncclProxyOp*, bool*)
#3  ncclGroupEndInternal(ncclSimInfo_v22200*)
#4  ncclAllReduce
"""


def test_a_rank_that_spins_in_nccls_proxy_queue_is_named(tmp_path: Path) -> None:
    text = f"# gdb -p 700 -batch -ex bt   (rank 0)\n{WAITS}# eu-stack -p 8841   (rank 1)\nTID 8841:\n{SPINS}"
    first = verdict(tmp_path, text).findings[0]
    assert (first.kind, first.ranks) == ("rank_stuck_in_code", (1,))


def test_py_spys_text_of_all_ranks_names_the_odd_one(tmp_path: Path) -> None:
    waiting = "    all_reduce (torch/distributed/distributed_c10d.py:3252)\n    step (train.py:29)\n"
    reading = "    wait (threading.py:302)\n    read_shard (data.py:88)\n    step (train.py:25)\n"
    text = ""
    for rank in range(4):
        frames = reading if rank == 2 else waiting
        text += f'Process {900 + rank}: python train.py\nThread {900 + rank} (idle): "MainThread"\n{frames}\n'
    found = verdict(tmp_path, text)
    assert (found.outcome, found.findings[0].ranks) == ("hung", (2,))
    assert "read_shard (data.py:88)" in found.findings[0].summary
