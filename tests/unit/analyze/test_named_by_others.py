"""Who failed by the words of others: monitors, digests, launchers, clusters, drivers, names of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read

RAISED = (
    'Traceback (most recent call last):\n  File "/x/train.py", line 3, in <module>\n    go()\nValueError: bad shard\n'
)
STEPS = "".join(f"step {number} loss 2.{number}\n" for number in range(20))


def _loud(folder: Path, files: dict[str, str] | str) -> list[Finding]:
    for name, text in (files if isinstance(files, dict) else {"job.out": files}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return [found for found in diagnose(job_of(read([folder]))).findings if found.severity != "info"]


MONITOR = "[WARNING] [RankMonServer812@n40:13] Did not get subsequent heartbeat. Waited 300.00 seconds.\n"
KILLED = (
    "[2026-02-11 10:15:02,114] [ERROR] failed (exitcode: -9) local_rank: 5 (pid: 81233) of binary: /usr/bin/python\n"
)


def test_a_monitor_that_heard_nothing_of_a_rank(tmp_path: Path) -> None:
    found = _loud(tmp_path, "world size 16\n" + STEPS + MONITOR + KILLED)[0]
    assert (found.kind, found.ranks, found.nodes) == ("watchdog_timeout", (13,), ("n40",))
    assert "5 min" in found.summary


def test_one_that_was_heard_again(tmp_path: Path) -> None:
    assert not _loud(tmp_path, MONITOR + STEPS * 12 + "Training completed\n")


@pytest.mark.parametrize(("size", "told"), [(16, "local rank 5"), (8, "rank 5 was")])
def test_a_local_rank_is_a_rank_on_one_node_alone(size: int, told: str, tmp_path: Path) -> None:
    (found,) = _loud(tmp_path, f"INFO world size: {size}\n" + STEPS + KILLED)
    assert told in found.summary
    assert found.ranks == ((5,) if size == 8 else ())


DIGEST = "E0303 08:31:12.100001    977 megascale_error_aggregator.cc:512] {}\n"
CAUSES = [
    ("that is likely caused by bad TPU chips on the following hosts. Please remove the hosts.", "collective_stalled"),
    ("that is likely caused by data input stalls on the following hosts. Please check.", "rank_stuck_in_data"),
    ("that is likely caused by inconsistent TPU programs. This can be.", "collective_mismatch"),
    ("but cannot determine the root cause. Please inspect the full digest below.", "job_stalled"),
]


@pytest.mark.parametrize(("words", "kind"), CAUSES)
def test_megascale_s_digest(words: str, kind: str, tmp_path: Path) -> None:
    rows = ["Megascale detects a hang " + words, "    Potential culprit workers: jax_worker/13:tpu-2-7"]
    (found,) = _loud(tmp_path, STEPS + "".join(map(DIGEST.format, rows)))
    assert (found.kind, found.nodes) == (kind, ("tpu-2-7",))


def test_a_node_that_answers_no_ping_of_pals(tmp_path: Path) -> None:
    (found,) = _loud(tmp_path, STEPS + "ping RPC timeout from x4212c7s0b0n0.hsn.cm.example.gov after 120s\n")
    assert (found.kind, found.nodes) == ("node_unreachable", ("x4212c7s0b0n0.hsn.cm.example.gov",))


HUNG_UP = """An MPI communication peer process has unexpectedly disconnected.  This
usually indicates a failure in the peer process (e.g., a crash or

  Local host: node-a
  Peer host:  node-d
"""
ABORT = """[node-a:27371] *** An error occurred in MPI_Allreduce
[node-a:27371] *** reported by process [3141,2]
[node-a:27371] *** MPI_ERR_OTHER: known error not in list
"""


def test_who_lost_a_peer_and_aborts_is_a_victim(tmp_path: Path) -> None:
    (found,) = _loud(tmp_path, STEPS + HUNG_UP + ABORT)
    assert (found.kind, "node-d, which ended first" in found.summary) == ("nccl_remote_error", True)


def test_who_aborts_by_itself_is_none(tmp_path: Path) -> None:
    found = _loud(tmp_path, STEPS + ABORT)[0]
    assert (found.kind, found.ranks) == ("rank_crashed", (2,))


def test_a_connection_that_open_mpi_could_not_make(tmp_path: Path) -> None:
    text = """WARNING: Open MPI failed to TCP connect to a peer MPI process.  This
should not happen.

Your Open MPI job may now hang or fail.

  Local host: node-a
  PID:        27371
  Message:    connect() to 10.1.0.14:1026 failed
  Error:      No route to host (113)
"""
    (found,) = _loud(tmp_path, STEPS + text)
    assert (found.kind, found.nodes) == ("node_unreachable", ("10.1.0.14",))


POD = """Name:             w-5
Namespace:        train
Node:             gpu-23/10.2.4.23
    State:          Terminated
      Reason:       {}
      Exit Code:    137
"""


def test_a_pod_that_is_described_and_was_killed(tmp_path: Path) -> None:
    found = _loud(tmp_path, POD.format("OOMKilled"))[0]
    assert (found.kind, found.nodes) == ("rank_killed", ("gpu-23",))
    assert "by the kernel: out of memory" in found.summary


def test_where_another_pod_runs_is_not_told(tmp_path: Path) -> None:
    unplaced = "Name:             w-6\nNode:             <none>\n"
    found = _loud(
        tmp_path, POD.format("Completed")[:60] + unplaced + POD.format("OOMKilled").partition("10.2.4.23\n")[2]
    )[0]
    assert found.nodes == ()


LSF = """Job was executed on host(s) <8*gpu-17>, in queue <gpu>, as user <ann> in cluster <c1>

TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.
Exited with exit code 137.
"""


def test_lsf_s_limit_of_memory_is_not_the_kernel_s(tmp_path: Path) -> None:
    found = _loud(tmp_path, STEPS + LSF)[0]
    assert (found.kind, found.nodes) == ("rank_killed", ("gpu-17",))
    assert "by LSF" in found.summary
    assert "kernel" not in found.summary


def test_a_gaudi_that_its_driver_lost(tmp_path: Path) -> None:
    line = "Mar  4 11:20:01 g12 kernel: [812345.1] habanalabs 0000:b3:00.0: "
    assert {found.kind for found in _loud(tmp_path, line + "Device heartbeat failed! PCI link is lost\n")} == {
        "gpu_lost"
    }
    assert not _loud(tmp_path, line + "Loading secured firmware to device, may take some time...\n")


def test_spark_s_executor_whose_task_raised(tmp_path: Path) -> None:
    front = "WARN TaskSetManager: Lost task 3.0 in stage 12.0 (TID 220) (10.139.64.11 executor 3): x.PythonException: "
    (found,) = _loud(tmp_path, front + RAISED)
    assert found.nodes == ("10.139.64.11",)


def test_ranks_by_the_folders_of_mpirun(tmp_path: Path) -> None:
    files = {f"out/1/rank.{rank:02d}/stderr": STEPS + (RAISED if rank == 6 else "") for rank in range(8)}
    (found,) = _loud(tmp_path, files)
    assert found.ranks == (6,)


@pytest.mark.parametrize(("master", "rank"), [(True, 3), (False, 2)])
def test_a_worker_beside_a_master_is_one_rank_further(master: bool, rank: int, tmp_path: Path) -> None:
    files = {f"opt-worker-{number}.log": STEPS + (RAISED if number == 2 else "") for number in range(3)}
    (found,) = _loud(tmp_path, files | ({"opt-master-0.log": STEPS} if master else {}))
    assert found.ranks == (rank,)


def test_a_job_whose_pods_failed_too_often(tmp_path: Path) -> None:
    (found,) = _loud(
        tmp_path, "3m Warning BackoffLimitExceeded   job/a-0   Job has reached the specified backoff limit\n"
    )
    assert (found.kind, "job a-0" in found.summary) == ("child_failed_no_detail", True)
    assert not _loud(tmp_path, "1m Normal Completed   job/a-0   Job completed\n")
