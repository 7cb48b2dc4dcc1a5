"""Ends of programs in words that are seldom seen, from the text of a file to the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read
from tests.support.reports import entry, report
from tests.support.saved import verdict

TESTS = """n1:31:37 [0] /b/hipify/src/proxy.cc:1190 NCCL WARN Socket recv failed while polling for opId=0x7d9e
n1:31:31 [1] NCCL INFO /b/hipify/src/init.cc:2241 -> 1
n1: Test NCCL failure /b/hipify/common.cu.cpp:1291 'unhandled cuda error (run with NCCL_DEBUG=INFO for details) / '
 .. n1 pid 31: Test failure /b/hipify/common.cu.cpp:1165"""
RAY = (
    "(raylet) node_manager.cc:29: System memory low at node with IP 10.1.2.3. Used memory (23GB) of (33GB)"
    " exceeds threshold 0.7, killing latest task with name actor:A.f to avoid running out of memory."
)
STACK = """/usr/lib/libsyn.so(syn::Log::handler(int, siginfo_t*, void*)+0x5e) [0x7fb9df5dd8fe]
/lib/x86_64-linux-gnu/libc.so.6(gsignal+0xc7) [0x7fba3cba7e87]
/lib/x86_64-linux-gnu/libc.so.6(abort+0x141) [0x7fba3cba97f1]"""
REPORT = report(
    *(entry(rank, rank, f"Signal 6 (SIGABRT) received by PID {10 + rank}", code=-6, pid=10 + rank, number=rank)
      for rank in range(3))
).partition("_09:27:52\n")[2]  # fmt: skip
HYDRA = """=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 108 RUNNING AT ann@n1
=   EXIT CODE: 134
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Terminated (signal 15)"""
FULL = "May  2 07:24:44 n1 kernel: memory: usage 1048576kB, limit 1048576kB, failcnt 141"
BUSY = "srun: Job 1355 step creation temporarily disabled, retrying (Requested nodes are busy)"
FABRIC = (
    "May  2 03:19:01 n1 systemd[1]: nvidia-fabricmanager.service: Control process exited, code=exited, status=1/FAIL"
)
ABORT = """ LIB Process 0: error code 911
MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD
with errorcode 911."""
TWICE = """Duplicate GPU detected : rank 9 and rank 1 both on CUDA device 34000
 Last error:
ncclInvalidUsage: This usually reflects invalid usage of NCCL library."""
ENDS = [
    ("RuntimeError: Failed to fetch index.json\nERROR:l:Rank 3 crashed with exit code 1.", "rank_crashed", "rank 3"),
    (FULL, "rank_killed", "out of memory"),
    (BUSY, "waiting", "a step of job 1355 is pending (Requested nodes are busy)"),
    ("slurmstepd: error: Prolog hung on node n7", "launch_failed", "Prolog hung"),
    (FABRIC, "nvlink_fabric_down", "nvidia-fabricmanager fails"),
    (ABORT, "rank_crashed", "rank 0"),
    (TWICE, "duplicate_gpu", "rank"),
    ("May  2 16:03:58Z n1 agent GCP Metadata Service says termination is imminent", "rank_killed", "preempt"),
    (HYDRA, "rank_crashed", "ABRT"),
    ("2026/05/02 23:03:50 Failed to initialize NVML: could not load NVML library.", "gpu_lost", "NVML"),
    ("slurmstepd: error: NVML: Failed to get usage(15): GPU is lost", "gpu_lost", "GPU is lost"),
    ("CUDA Error: no CUDA-capable device is detected", "invalid_device", "does not have"),
    (STACK, "rank_crashed", "aborted"),
    (REPORT, "rank_crashed", "ranks 0,2 on n7"),
    ("[1:2.3][GC      ][error][tid:44F] compile: Can not compile graph, status: 26[fail]", "rank_crashed", "compile"),
    ("ls: cannot access /data/train: Stale file handle", "rank_crashed", "Stale file handle"),
    (
        "[  720.100001] INFO: task python3:226 blocked on a semaphore likely last held by task kworker:88",
        "kernel_trouble",
        "python3",
    ),
    (TESTS, "rank_crashed", "unhandled cuda error"),
    (RAY, "host_out_of_memory", "memory"),
    (
        "*** The MPI_Barrier() function was called before MPI_INIT was invoked.\n*** Your MPI job will now abort.",
        "rank_crashed",
        "MPI_Barrier",
    ),
    ("PBS: job killed: walltime 432 exceeded limit 400", "rank_killed", "time limit"),
]
NONE = [
    "rank 3 crashed with exit codes of its own in the past\nEpoch 1/3",
    FULL.replace("limit 1048576kB", "limit 2097152kB"),
    BUSY + "\nsrun: Step created for job 1355\nEpoch 1/3",
    "slurmstepd: Prolog done on node n7\nEpoch 1/3",
    FABRIC + "\nMay  2 03:29:01 n1 systemd[1]: Started FabricManager service.\nEpoch 1/3",
    "MPI_ABORT is called by nobody\nEpoch 1/3",
    "Duplicate GPU detection is on\nEpoch 1/3",
    "termination is imminent only where the Metadata Service says so\nEpoch 1/3",
    "2026/05/02 23:03:50 NVML library loaded\nEpoch 1/3",
    "CUDA Errors so far: 0\nEpoch 1/3",
    "w.py:46: UserWarning: [Errno 28] No space left on device.  joblib will operate in serial mode\nEpoch 1/3",
    "[error] 0 of 12 checks\nEpoch 1/3",
    "task: blocked on a review\nEpoch 1/3",
    "memory is low on this node; lower batch sizes are advised\nEpoch 1/3",
    "The MPI_Barrier() function synchronises\nEpoch 1/3",
    "PBS: job started\nEpoch 1/3",
]


@pytest.mark.parametrize(("text", "kind", "named"), ENDS)
def test_an_end(tmp_path: Path, text: str, kind: str, named: str) -> None:
    found = verdict(tmp_path, text).findings[0]
    assert found.kind == kind
    assert named in found.summary


@pytest.mark.parametrize("text", NONE)
def test_none(tmp_path: Path, text: str) -> None:
    assert verdict(tmp_path, text).findings == ()


def test_who_told_deepspeed_s_launcher_to_end(tmp_path: Path) -> None:
    killed = "[2026-11-25 20:27:13,107] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 26\n"
    told = "[2026-11-25 20:27:14,902] [INFO] [launch.py:328:sigkill_handler] Main process received SIGINT, exiting\n"
    (tmp_path / "job.log").write_text(killed + told)
    (finding,) = diagnose(job_of(read([tmp_path]))).findings
    assert (finding.kind, "user" in finding.summary) == ("rank_killed", True)


def test_hydra_kills_all_others_when_one_faults(tmp_path: Path) -> None:
    ended = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK {} PID 47{} RUNNING AT n7\n"
    how = ("9 (Killed)", "11 (Segmentation fault)", "9 (Killed)")
    (tmp_path / "job.out").write_text(
        "".join(ended.format(rank, rank) + f"=   KILLED BY SIGNAL: {by}\n" for rank, by in enumerate(how))
    )
    first = diagnose(job_of(read([tmp_path]))).findings[0]
    assert (first.kind, first.ranks) == ("rank_crashed", (1,))


def test_tasks_that_slurm_names_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(
        "srun: error: n160: tasks 8-10,12: Aborted\nsrun: Terminating job step 9.1\n"
        "srun: error: n160: tasks 1-7: Terminated\n"
    )
    first = diagnose(job_of(read([tmp_path]))).findings[0]
    assert (first.kind, first.ranks, first.nodes) == ("rank_crashed", (8, 9, 10, 12), ("n160",))


def test_words_of_fortran_and_of_ascend(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text("forrtl: severe (174): SIGSEGV, segmentation fault occurred\nImage      PC        Routine\n")
    assert [finding.kind for finding in diagnose(job_of(read([tmp_path]))).findings] == ["rank_crashed"]
    path.write_text(
        "[rank3]: Execution_Error_ROCE_CQE(EI0013): An error CQE occurred. Peer information: device IP 10.0.0.5.\n"
    )
    (finding,) = diagnose(job_of(read([tmp_path]))).findings
    assert (finding.kind, finding.ranks) == ("ib_retry_exceeded", (3,))


def test_what_stands_behind_a_report_of_ras(tmp_path: Path) -> None:
    report = "Job summary\n===\n\nCommunicators... (0.01s)\n===\n\nErrors\n======\n\n"
    said = (
        "[rank3]:[E603 17:48:01.005271823 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=1800000) ran for 1800068 "
        "milliseconds before timing out.\n"
    )
    (tmp_path / "job.out").write_text(report + said)
    assert [finding.kind for finding in diagnose(job_of(read([tmp_path]))).findings] == ["watchdog_timeout"]
