"""What stands beside a failure in the same log, from the text of a file to the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Finding
from tests.support.reports import entry, report
from tests.support.saved import verdict


def root(folder: Path, text: str) -> Finding:
    """The first of its findings."""
    return verdict(folder, text).findings[0]


TOLD: list[tuple[str, str, tuple[int, ...], tuple[str, ...]]] = [
    (
        "MPT ERROR: Rank 57(g:57) received signal SIGSEGV(11).\n\tProcess ID: 12, Host: r8i1n28, Program: /x/y",
        "rank_crashed", (57,), ("r8i1n28",),
    ),
    (
        (
            "MPICH ERROR [Rank 5] [job id 9.0] [Tue Jun 11 15:11:42 2026] [nid7] - Abort(539) (rank 5 in comm 0): "
            "Fatal error in PMPI_Iprobe: Other MPI error, error stack:"
        ),
        "rank_crashed", (5,), ("nid7",),
    ),
    (
        (
            "26/11/22 10:00:00 ERROR YarnClusterScheduler: Lost executor 1 on n7.cluster: Container marked as failed: "
            "container_1 on host: n7.cluster. Exit status: 134. Diagnostics: none"
        ),
        "rank_crashed", (), ("n7.cluster",),
    ),
    (
        (
            "ERROR cluster.YarnScheduler: Lost executor 9 on n7.cluster: Container killed by YARN for exceeding memory "
            "limits. 7.2 GB of 4.2 GB virtual memory used."
        ),
        "rank_killed", (), ("n7.cluster",),
    ),
    (
        "ERROR cluster.YarnScheduler: Lost executor 4 on n7.cluster: remote Rpc client disassociated",
        "child_failed_no_detail", (), ("n7.cluster",),
    ),
    (
        (
            "RuntimeError: DataLoader worker (pid 629) is killed by signal: Killed.\n"
            "Memory cgroup out of memory: Killed process 629 (train) total-vm:1kB, anon-rss:1kB, file-rss:0kB"
        ),
        "host_out_of_memory", (), (),
    ),
    (
        (
            'Traceback (most recent call last):\n  File "t.py", line 3, in main\n    ray.get(x)\n'
            "ray.exceptions.RayTaskError(ActorDiedError): ray::A.run() (pid=4"
        ),
        "child_failed_no_detail", (), (),
    ),
    (
        (
            'Traceback (most recent call last):\n  File "t.py", line 3, in main\n    x()\n'
            "RuntimeError: DataLoader worker (pid 2651)"
        ),
        "rank_crashed", (), (),
    ),
    (
        (
            "tensorflow.python.framework.errors_impl.UnknownError: ncclCommInitRank failed: unhandled system error\n"
            "srun: error: n1: task 1: Exited with exit code 1\nsrun: error: n2: task 0: Exited with exit code 1"
        ),
        "rank_crashed", (), (),
    ),
    (
        "slurmstepd: error: pyxis: couldn't start container\nsrun: error: n7: task 1: Exited with exit code 1",
        "launch_failed", (), ("n7",),
    ),
    ("salloc: Prolog failure on node n7", "launch_failed", (), ("n7",)),
    ("error: _forkexec_slurmstepd: slurmstepd failed to send return code got 0: No error", "rank_crashed", (), ()),
    (
        (
            " 5: libfabric:47:166:cxi:core:cxip_cb():24<warn> RXC: Flow control triggered due to failure to append\n"
            " 5: Program received signal SIGABRT: Process abort signal."
        ),
        "rank_crashed", (5,), (),
    ),
    ("WARN: Function: f Line: 4: NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid", "nccl_init_failed", (), ()),
    ("XID 79(GPU has fallen off the bus) detected on PCI:0000:ae:00", "gpu_lost", (), ("node",)),
    ("[root@n7 x]# nvidia-smi\nUnable to determine the device handle for GPU 0000:0B:00.0: Unknown Error",
     "gpu_lost", (), ("n7",)),
    ("No devices were found", "gpu_lost", (), ()),
    ("[2.1] dd              D    0 59750  51044 0x00004004", "kernel_trouble", (), ("node",)),
    ("[7.1] amdgpu 0000:2f:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE", "gpu_needs_reset", (), ("node",)),
    ("UserWarning: CUDA initialization: Error 803: system has unsupported display driver (Triggered)",
     "rank_crashed", (), ()),
    ("[n7] RankMonitor: Did not get subsequent heartbeat. Waited 180 seconds.", "watchdog_timeout", (), ()),
    ("DeepEP dispatch timeout (NVL channel), rank: 3, channel: 2", "watchdog_timeout", (), ()),
    ("distributed.nanny - INFO - Failed to start worker process.  Restarting", "child_failed_no_detail", (), ()),
    ("socket.gaierror: [Errno -2] Name or service not known", "rank_crashed", (), ()),
    ("OSError: [Errno 107] Transport endpoint is not connected: '/mnt/x'", "rank_crashed", (), ()),
    (
        (
            "[Info] Listening...[LightGBM] [Warning] Connecting to rank 1 failed, waiting for 200 milliseconds\n"
            "[LightGBM] [Warning] Connecting to rank 1 failed, waiting for 260 milliseconds\n"
            "[LightGBM] [Warning] Connecting to rank 1 failed, waiting for 338 milliseconds"
        ),
        "init_hang", (1,), (),
    ),
    (
        (
            "[n1:12] *** MPI_ERR_INTERN: internal error\n[n2:13] *** Process received signal ***\n"
            "[n2:13] Signal: Segmentation fault (11)"
        ),
        "rank_crashed", (), ("n1",),
    ),
]  # fmt: skip
"""Text, kind, ranks, nodes."""


@pytest.mark.parametrize("row", range(len(TOLD)))
def test_what_is_told(tmp_path: Path, row: int) -> None:
    text, kind, ranks, nodes = TOLD[row]
    found = root(tmp_path, text)
    assert (found.kind, found.ranks, found.nodes) == (kind, ranks, nodes)


@pytest.mark.parametrize(
    "text",
    [
        "26/11/22 10:00:00 ERROR RabitTracker: 2026-11-22 10:00:00,668 INFO [15] train-logloss:0.005 eval-logloss:0.5",
        "heartbeat timeout is 100 s, heartbeat interval 10 s",
        "[LightGBM] [Warning] Connecting to rank 1 failed, waiting for 200 milliseconds",
        "XID columns: 13, 31, 79 are looked at",
        "[2.1] dd              S    0 59750  51044 0x00004004",
        "qname        all.q\nhostname     n7\nfailed       0\nexit_status  0",
        "INFO scheduler: Lost task 1.1 in stage 0.0 is tried again",
        "all workers have started",
    ],
)
def test_what_is_nothing(tmp_path: Path, text: str) -> None:
    assert verdict(tmp_path, text).findings == ()


def test_a_bootstrap_that_waited_in_vain(tmp_path: Path) -> None:
    late = "2026-Aug-01 16:14:43.02 33:35 [3] bootstrap.cc:89 CCOM WARN Timeout waiting for "
    vain = late + "incoming connection (waited 120 sec)"
    assert root(tmp_path, vain).kind == "nccl_init_failed"
    assert verdict(tmp_path, vain + "\n" + "epoch\n" * 9).findings == ()
    assert verdict(tmp_path, late + "RX (waited 120 sec) - retrying").findings == ()


def test_tracebacks_without_a_label_are_those_of_the_rank_that_torchrun_names(tmp_path: Path) -> None:
    """All raise the same; the agent sees one of them end, and ends the others before they do."""
    raised = 'Traceback (most recent call last):\n  File "/x/train.py", line 8, in <module>\n    import fused\n'
    ended = (entry(rank, rank, code=-15, pid=rank + 7, number=rank) for rank in (0, 2))
    found = root(
        tmp_path, (raised + "ModuleNotFoundError: No module named 'fused'\n") * 2 + report(entry(1, 1), *ended)
    )
    assert (found.kind, found.ranks, "No module named 'fused'" in found.summary) == ("rank_crashed", (1,), True)
