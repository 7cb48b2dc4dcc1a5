"""Errors in plain words behind any front: the kind, and whose they are; and such words in which nothing is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.saved import verdict

ERRORS = [
    ("failed to connect to 10.0.0.9:29500: Connection refused", "nccl_remote_error"),
    ("open /data/x: Stale file handle", "rank_crashed"),
    ("train: error while loading shared libraries: libx.so.2: cannot open shared object file", "rank_crashed"),
    ("cudaErrorMisalignedAddress: misaligned address", "rank_crashed"),
    ("CUDA driver version is insufficient for CUDA runtime version", "rank_crashed"),
    ("Caught exception: std::out_of_range: vector::_M_range_check", "rank_crashed"),
    ("Unhandled exception in worker thread: bad shard", "rank_crashed"),
    ("NCCL error: unhandled system error", "rank_crashed"),
    ("UNAVAILABLE: the service gives no answer", "store_timeout"),
    ("fork: retry: Resource temporarily unavailable", "process_limit"),
    ("Killed", "rank_killed"),
]
FRONTS = [
    ("[rank3]: ", (3,), ()),
    ("rank=3 ", (3,), ()),
    ("[2026-11-22 10:00:00][rank3][ERROR] ", (3,), ()),
    ("2026-11-22 10:00:00,123 [ERROR] rank 3 - ", (3,), ()),
    ("Nov 22 10:00:00 node7 train[4711]: ", (), ("node7",)),
]
SHORT = [
    ("[R3] ", (3,), ()),
    ("[h=n7 r=3] ", (3,), ()),
    ("proc 3: ", (3,), ()),
    ("(rank 3) ", (3,), ()),
    ("[node7 rank 3] ", (3,), ("node7",)),
    ("node7 [rank3]: ", (3,), ("node7",)),
    ("gpu-7:4711:4800 [3] ", (), ("gpu-7",)),
]
CHILD = """Rank 2 worker is dead. See its log.
Exit code: -9
Traceback (most recent call last):
  File "/x/bin/serve", line 10, in <module>
    sys.exit(main())
  File "/x/cli.py", line 98, in main
    started = start("""
IMPROPER = """Test done.
mpiexec has exited due to process rank 2 with PID 54987 on
node n10 exiting improperly. There are three reasons this could occur"""
NOTICED = "mpiexec noticed that process rank 2 with PID 54987 on node n10 exited"
QUOTED = """the job to be terminated. The first process to do so was:

  Process name: [[50759,1],2]
##   Exit code:    2"""
BESIDE = """E0511 18:18:50.796514     915 master.cc:505] Session is failing, as was told at node tpu-8.
E0511 18:18:50.796852     915 client.cc:311] Detected failure of a chip driver; start of failure handling"""
UCX = "[1595598109.293924] [cn007:58829:0]   ib_verbs.h:84   UCX  ERROR ibv_query(mlx5_0) returned 38: not known"
OF_SLURM = "/spool/job7/slurm_script: line 31:  6521 Killed singularity exec train.py\n7_4    FAILED\n"
STARRED = "/spool/job7/slurm_script: line 31: 86298 **Segmentation fault**      (core dumped) train"
WAITS = "  Name:           w-1\n  Node:           <none>\n  Status:         Pending\n  IP:"
BACK_OFF = "Name:   w-1\n    State:          Waiting\n      Reason:       CrashLoopB"
SHADER = "[22340.220490] amdgpu: sq_intr: error, detail 0x00000000, type 1, sh 1, priv 1, wave_id 4"
COMMAND = (
    "subprocess.CalledProcessError: Command '['python3', 'x.py', '--local_rank=7']' died with <Signals.SIGSEGV: 11>."
)
SPAWNED = """Traceback (most recent call last):
  File "/x/torch/multiprocessing/spawn.py", line 150, in join
    raise ProcessRaisedException(msg, error_index, failed_process.pid)
torch.multiprocessing.spawn.ProcessRaisedException:

-- Process 3 terminated with"""
NAMED = [
    (SPAWNED, "child_failed_no_detail", (3,), ()),
    ("slurmstepd: error: JOB CANCELLED DUE TO TIME LIMIT", "rank_killed", (), ()),
    ("[  441.170986] NVRM: No NVIDIA graphics adapter found!", "gpu_lost", (), ()),
    (OF_SLURM, "rank_killed", (), ()),
    (STARRED, "rank_crashed", (), ()),
    (WAITS, "waiting", (), ()),
    (BACK_OFF, "child_failed_no_detail", (), ()),
    (SHADER, "gpu_xid", (), ()),
    (COMMAND, "rank_crashed", (7,), ()),
    (IMPROPER, "child_failed_no_detail", (2,), ()),
    (NOTICED, "child_failed_no_detail", (2,), ("n10",)),
    (NOTICED + " on", "child_failed_no_detail", (2,), ("n10",)),
    (NOTICED + " on\nsignal 9 (Killed).", "rank_killed", (2,), ("n10",)),
    (QUOTED, "child_failed_no_detail", (2,), ()),
    (BESIDE, "rank_crashed", (), ("tpu-8",)),
    (UCX, "nccl_init_failed", (), ("cn007",)),
]
NOTHING = [
    "slurmstepd: the JOB may be CANCELLED when its time is over",
    "[  441.170986] NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
    "  Status:         Running",
    "    State:          Waiting\n      Reason:       ContainerCreating",
    "[22340.220490] amdgpu: sq_intr: auto, detail 0x00000000",
    (
        "2018-12-20 09:24:00.6: E tensorflow/cuda_driver.cc:397] failed call to cuInit: CUDA_ERROR_NO_DEVICE\n"
        'E1220 09:24:00.6 8 socket.cc:197] check: {"description":"SO_REUSEPORT unavailable on compiling system"}\n'
        "2018-12-20 09:24:00.6: I grpc_channel.cc:215] Initialize GrpcChannelCache for job ps"
    ),
    "mpiexec has exited after process rank 2 on node n10 was done",
    "[15601.662156] infiniband rocep33s0f0: mlx5_poll_one:527: cqe on cqn 0x406: done",
    "[1595598109.293924] [cn007:58829:0]   ib_verbs.h:84   UCX  INFO ibv_query(mlx5_0) returned 0",
    "n1-a: Welcome to a library. For bug reports, please submit your error trace to: https://x.org/issues",
    "an error report is written to /logs every hour",
    "error handling: on",
    "Epoch 1/3 of llama3 rank 3",
    "cudaErrorNotReady: device not ready",
    "the connection to the hub is refreshed",
    "std::cout is redirected",
    "UserWarning: CUDA initialization: CUDA driver version is insufficient for CUDA runtime version",
    "UNAVAILABLE: will be retried",
    "an unexpected exception: ignored",
    "Killed 0 of 3 workers",
    "memory of shared libraries: 3 GB",
    "exit code of each child is logged",
]


@pytest.mark.parametrize(("front", "ranks", "nodes"), FRONTS)
@pytest.mark.parametrize(("error", "kind"), ERRORS)
def test_an_error_behind_any_front(
    tmp_path: Path, error: str, kind: str, front: str, ranks: tuple[int, ...], nodes: tuple[str, ...]
) -> None:
    found = verdict(tmp_path, front + error).findings[0]
    assert (found.kind, found.ranks, found.nodes) == (kind, ranks, nodes)


@pytest.mark.parametrize(("front", "ranks", "nodes"), SHORT)
def test_short_forms(tmp_path: Path, front: str, ranks: tuple[int, ...], nodes: tuple[str, ...]) -> None:
    found = verdict(tmp_path, front + "KeyError: 'labels'").findings[0]
    assert (found.kind, found.ranks, found.nodes) == ("rank_crashed", ranks, nodes)


def test_a_child_s_signal_says_more_than_its_parent_s_cut_traceback(tmp_path: Path) -> None:
    found = verdict(tmp_path, CHILD).findings[0]
    assert (found.kind, found.ranks) == ("rank_killed", (2,))
    plain = verdict(tmp_path, CHILD.replace("-9", "0")).findings[0]
    assert (plain.kind, "traceback" in plain.summary) == ("rank_crashed", True)


@pytest.mark.parametrize(("text", "kind", "ranks", "nodes"), NAMED)
def test_launchers_and_drivers(
    tmp_path: Path, text: str, kind: str, ranks: tuple[int, ...], nodes: tuple[str, ...]
) -> None:
    found = verdict(tmp_path, text).findings[0]
    assert (found.kind, found.ranks) == (kind, ranks)
    assert not nodes or found.nodes == nodes


@pytest.mark.parametrize("text", NOTHING)
def test_nothing_is_wrong(tmp_path: Path, text: str) -> None:
    assert [finding.summary for finding in verdict(tmp_path, text).findings] == []


@pytest.mark.parametrize("front", ["[PP1 rank 3] ", "zero3 rank 3: ", "step7 r3 ", "[r3d_18] "])
def test_names_that_are_no_machines(tmp_path: Path, front: str) -> None:
    assert verdict(tmp_path, front + "KeyError: 'labels'").findings[0].nodes == ()
