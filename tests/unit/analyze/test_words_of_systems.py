"""What batch systems, containers, kernels and storage say, from the text of a file to the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.session.folder import job_of, read
from tests.support.saved import verdict

REFUSED = [
    "srun: error: Unable to create step for job 77: More processors requested than permitted",
    "sbatch: error: Batch job submission failed: Node count specification invalid",
    "slurmstepd: error: execve(): python: No such file or directory",
    "slurmstepd-n3: error: pyxis: couldn't start container\nsrun: error: n3: task 0: Exited with exit code 1",
    "There are not enough slots available in the system to satisfy the 64\nslots that were requested",
    "mpirun was unable to launch the specified application as it could not access\nor execute an executable:",
    "git@n7: Permission denied (publickey,password).",
    "0.087s: flux-shell[0]: FATAL: task 0: start failed: train: No such file or directory",
    "/var/spool/job/script: line 9: torchrun: command not found",
    "docker: Error response from daemon: could not select device driver with capabilities: [[gpu]].",
    "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
    "FATAL:   container creation failed: mount hook function failure: no loop device",
    '  Warning  Failed  12s  kubelet  Failed to pull image "a/b:1": rpc error: code = NotFound desc = not found',
    "  Warning  FailedMount  3m  kubelet  Unable to attach or mount volumes: timed out waiting for the condition",
]


@pytest.mark.parametrize("text", REFUSED)
def test_a_job_that_was_not_started(tmp_path: Path, text: str) -> None:
    found = verdict(tmp_path, text).findings[0]
    assert (found.kind, found.severity) == ("launch_failed", "critical")
    assert found.summary.startswith("the job was not started: ")


@pytest.mark.parametrize(
    "text",
    [
        "bash: line 3: nvidia-smi: command not found\nEpoch 1/3",
        "docker: Error response from daemon: Conflict. The container name /train is already in use.",
        REFUSED[0] + "\nn1:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\nTraining completed",
        "permission denied (not a key)",
    ],
)
def test_a_word_of_refusal_that_is_none(tmp_path: Path, text: str) -> None:
    assert [found for found in verdict(tmp_path, text).findings if found.kind == "launch_failed"] == []


PENDING = "  Warning  FailedScheduling  60s  default-scheduler  0/8 nodes are available: 8 Insufficient nvidia.com/gpu."


def test_a_job_without_a_place_and_one_that_got_it(tmp_path: Path) -> None:
    assert verdict(tmp_path, PENDING).findings[0].kind == "waiting"
    placed = PENDING + "\n  Normal  Scheduled  9s  default-scheduler  Successfully assigned default/train-0 to n4"
    assert verdict(tmp_path, placed).findings == ()


@pytest.mark.parametrize(
    ("text", "kind", "nodes"),
    [
        ("[1.0] EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#2_DIMM#0", "kernel_trouble", ()),
        ("Nov 22 10:00:00 n5 kernel: Kernel panic - not syncing: Fatal exception", "kernel_trouble", ("n5",)),
        ("[1.0] mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: be00000000800400", "kernel_trouble", ()),
        ("[1.0] pcieport 0000:16:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=X", "kernel_trouble", ()),
        ("[1.0] rcu: INFO: rcu_sched self-detected stall on CPU", "kernel_trouble", ()),
        ("[1.0] BUG: unable to handle page fault for address: ffff8", "kernel_trouble", ()),
        (
            "[1.0] Lustre: s-OST0012-osc-ff: Connection to s-OST0012 (at 10.0.0.1@o2ib) was lost; in progress",
            "storage_stalled",
            (),
        ),
        ("[1.0] LustreError: 167-0: s-mdc: This client was evicted by s-MDT0000; in progress", "storage_stalled", ()),
        ("[1.0] ceph: mds0 hung", "storage_stalled", ()),
        (r"[1.0] CIFS: VFS: \\fs1 has not responded in 180 seconds. Reconnecting...", "storage_stalled", ()),
        ("Lost membership in cluster gpfs.site. Unmounting file systems.", "storage_stalled", ()),
        ("[1.0] nvme nvme0: controller is down; will reset: CSTS=0xffffffff", "storage_stalled", ()),
        ("[1.0] blk_update_request: I/O error, dev sda, sector 12 op 0x0:(READ)", "storage_stalled", ()),
        ("[1.0] EXT4-fs (nvme0n1p1): Remounting filesystem read-only", "storage_stalled", ()),
        ("[1.0] bnxt_en 0000:17:00.0 ens0: TX timeout detected, starting reset task!", "kernel_trouble", ()),
        ("OpenBLAS blas_thread_init: pthread_create failed for thread 9 of 64: Resource temporarily unavailable",
         "process_limit", ()),
        ("RuntimeError: can't start new thread", "process_limit", ()),
        ("Failed to initialize NVML: Unknown Error", "gpu_lost", ()),
        ("The node with node id: abcdef0123 and address: 10.0.0.7 has been marked dead because the detector has missed",
         "node_unreachable", ("10.0.0.7",)),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 10Gi.", "rank_killed", ()),
        ("Preempted by default/high on node n3", "rank_killed", ()),
        ("0.12s: job.exception type=timeout severity=0 resource allocation expired", "rank_killed", ()),
        ("[TRT-LLM] [E] Hang detected on rank 0 in PyExecutor.", "watchdog_timeout", ()),
        ("torch._dynamo.exc.Unsupported: a frame that it cannot trace", "rank_crashed", ()),
        ("concurrent.futures.process.BrokenProcessPool: A process was terminated abruptly", "rank_crashed", ()),
        ("Exception: Current loss scale already at minimum", "rank_crashed", ()),
        ("ncclInvalidUsage: This usually reflects invalid usage of NCCL library.", "rank_crashed", ()),
    ],
)  # fmt: skip
def test_what_such_words_mean(tmp_path: Path, text: str, kind: str, nodes: tuple[str, ...]) -> None:
    found = verdict(tmp_path, text).findings[0]
    assert found.kind == kind
    assert set(nodes) <= set(found.nodes)


@pytest.mark.parametrize(
    "text",
    [
        "[1.0] EDAC MC0: 4 CE error on CPU#0Channel#2_DIMM#0 (channel:2 slot:0)",
        "[1.0] mce: [Hardware Error]: CPU 10: Machine Check: 0 Bank 8: 8c00004f000800c2",
        "[1.0] mce: [Hardware Error]: Machine check events logged",
        "[1.0] Lustre: Lustre: Build Version: 2.15.1",
        (
            "[1.0] Lustre: s-osc: Connection to s-OST1 (at a@o2ib) was lost; in progress operations\n"
            "[9.0] Lustre: s-osc: Connection restored to s-OST1 (at a@o2ib)"
        ),
        "[1.0] nvme nvme0: 64/0/0 default/read/poll queues",
        "[1.0] EXT4-fs (sda1): mounted filesystem with ordered data mode",
        "[W socket.cpp:663] [c10d] The client socket has failed to connect to [n1]:29500 (errno: 97 - Address family).",
        "using torch.nn.functional: 3 layers",
        "Container runtime: docker, exit code 0",
    ],
)
def test_what_means_nothing(tmp_path: Path, text: str) -> None:
    assert verdict(tmp_path, text).findings == ()


@pytest.mark.parametrize(
    ("text", "ranks", "nodes"),
    [
        ("foo: task rank 1 on host n7 failed and exit-on-error is set", (1,), ("n7",)),
        ("x1001c0s3b0n0.cm: rank 5 died from signal 11 and dumped core", (5,), ("x1001c0s3b0n0.cm",)),
        ("_pmiu_daemon(SIGCHLD): [NID 00024] PE RANK 3 exit signal Segmentation fault", (3,), ()),
        ("Global rank 6 (PID 4242) exited with code 1", (6,), ()),
        ("mpirun noticed that process rank 2 with PID 42 on node n12 exited on\nsignal 11 (Segmentation fault).",
         (2,), ("n12",)),
        ("RuntimeError: Rank 13, node gpu07, device 5, iteration 10: Unexpected result nan", (13,), ()),
    ],
)  # fmt: skip
def test_whose_end_it_was(tmp_path: Path, text: str, ranks: tuple[int, ...], nodes: tuple[str, ...]) -> None:
    found = verdict(tmp_path, text).findings[0]
    assert found.ranks == ranks
    assert set(nodes) <= set(found.nodes)


def test_a_peer_in_a_message_is_not_who_speaks(tmp_path: Path) -> None:
    assert verdict(tmp_path, "RuntimeError: connection to rank 3 was lost in shard 2").findings[0].ranks == ()


def test_seven_of_eight_that_came_do_not_make_seven_that_are_missing(tmp_path: Path) -> None:
    text = (
        "[rank3]: torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 7/8 clients joined."
    )
    found = verdict(tmp_path, text).findings[0]
    assert (found.kind, found.ranks) == ("store_timeout", ())


def test_a_compiler_that_fails_is_no_child_of_the_launcher(tmp_path: Path) -> None:
    text = "subprocess.CalledProcessError: Command '['/usr/bin/gcc', 'a.c']' returned non-zero exit status 1."
    assert verdict(tmp_path, text).findings[0].kind == "rank_crashed"


def test_slurm_ended_the_others_and_names_who_was_left(tmp_path: Path) -> None:
    text = (
        "error: *** STEP 5.0 ON n3 CANCELLED AT 2026-04-29T23:36:37 DUE TO TASK FAILURE ***\n"
        "srun: error: n3: tasks 0-57,59-63: Terminated"
    )
    found = verdict(tmp_path, text).findings[0]
    assert (found.kind, found.ranks, found.nodes) == ("child_failed_no_detail", (58,), ("n3",))


def test_slurm_was_told_to_end_them(tmp_path: Path) -> None:
    text = "error: *** STEP 5.0 ON n3 CANCELLED AT 2026-04-29T23:36:37 ***\nsrun: error: n3: tasks 0-63: Terminated"
    assert verdict(tmp_path, text).findings[0].kind == "rank_killed"


def test_the_place_that_a_help_text_tells_under_its_words(tmp_path: Path) -> None:
    text = "mpirun was unable to find the specified executable file, and therefore\ndid not launch.\n\nNode:       n4"
    assert verdict(tmp_path, text).findings[0].nodes == ("n4",)
    assert verdict(tmp_path, "Node:       n4\nExecutable: train").findings == (), "nothing was refused"


def test_where_mpi_said_it_before_it_began(tmp_path: Path) -> None:
    text = (
        "*** An error occurred in MPI_Init_thread\n*** on a NULL communicator\n"
        "[n1:71142] Local abort before MPI_INIT completed completed successfully,"
    )
    found = verdict(tmp_path, text).findings[0]
    assert (found.kind, found.nodes) == ("rank_crashed", ("n1",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python: /x/csrc/aio.cpp:125: int wait(long, std::vector<int>&): Assertion `a >= b' failed.", "a >= b"),
        ("runtime.throw(0xb5e9bc, 0x9)\n\t/go/src/runtime/panic.go:1116 +0x72", "Go's runtime"),
        (":0:rocdevice.cpp:3586: Callback: Queue 0x7f78 aborting with error : HSA_STATUS_ERROR_EXCEPTION: An", "HSA_"),
        (
            (
                "ValueError          Traceback (most recent call last)\nCell In[3], line 2\n----> 2 run()\n\n"
                "File /src/reader.py:88, in Reader.next(self)\n     88 raise\n\nValueError: bad shard"
            ),
            "ValueError: bad shard at /src/reader.py:88 in Reader.next",
        ),
        (
            "KeyError            Traceback (most recent call last)\n/src/a.py in get(self)\n      3 x\n----> 4 y",
            "KeyError",
        ),
    ],
)
def test_ends_in_other_forms(tmp_path: Path, text: str, words: str) -> None:
    found = verdict(tmp_path, text).findings[0]
    assert found.kind == "rank_crashed"
    assert words in found.summary


def test_a_gpu_that_wants_a_reset(tmp_path: Path) -> None:
    text = "[3.5] NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x62) returned"
    assert verdict(tmp_path, text).findings[0].kind == "gpu_needs_reset"
    assert verdict(tmp_path, "[3.5] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.07").findings == ()


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("WARNING -- Raylet is terminated: ip=10.0.0.5, id=ab. Termination is unexpected. Possible", ("10.0.0.5",)),
        (
            "Task failed because the node it was running on is dead or unavailable. Node IP: 10.0.0.6, node",
            ("10.0.0.6",),
        ),
        ("(raylet) Raylet is terminated. Termination is unexpected. Possible reasons include", ()),
    ],
)
def test_what_ray_lost(tmp_path: Path, text: str, nodes: tuple[str, ...]) -> None:
    found = verdict(tmp_path, text).findings[0]
    assert (found.kind, found.nodes) == ("node_unreachable", nodes)


WARNED = "n1:1:1 [0] graph/rings.cc:38 NCCL WARN Error : ring 0 does not loop back to start (5 != 0)\n"


def test_nccls_last_warning_speaks_where_nothing_else_does(tmp_path: Path) -> None:
    assert verdict(tmp_path, WARNED).findings[0].kind == "nccl_init_failed"
    assert verdict(tmp_path, WARNED + "epoch\n" * 9).findings == ()
    optional = "n1:1:1 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\n"
    assert verdict(tmp_path, optional).findings == ()


@pytest.mark.parametrize(
    "text",
    ["loading shards\nindex build failed while merging part 3", "part 1\nhelper terminated: memory corrupted\n\n"],
)
def test_the_end_of_an_output_in_words_that_nothing_knows(tmp_path: Path, text: str) -> None:
    found = verdict(tmp_path, text).findings[0]
    assert found.kind == "rank_crashed"
    assert found.summary.startswith("the output ends with: ")
    assert found.certainty == "possible"


@pytest.mark.parametrize(
    "text",
    [
        "index build failed while merging part 3\n" + "merging goes on\n" * 5,
        "INFO: the last merge failed before",
        "[W501 10:00:00.0 x.cpp:3] the merge failed here",
        "validation error: 0.31 after one epoch",
        "0 errors in the merge of part 3",
        "the merge failed, retrying in 3 seconds",
        "index build failed while merging part 3\nEpoch 3 step 17 loss 2.31",
        "    raise MergeError('the merge failed here')",
        "# columns: time, merged, failed parts",
    ],
)
def test_an_end_that_tells_of_no_failure(tmp_path: Path, text: str) -> None:
    assert verdict(tmp_path, text).findings == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            " 0# 0x000056112E9F2459 in serve\n 1# gsignal in /lib/libc.so.6\n 2# abort in /lib/libc.so.6",
            "the process aborted",
        ),
        ("    /opt/site-packages/tf/ops/broadcast.py:158 broadcast_send\n        timeout=timeout)", "a traceback"),
    ],
)
def test_stacks_of_others(tmp_path: Path, text: str, words: str) -> None:
    found = verdict(tmp_path, text).findings[0]
    assert found.kind == "rank_crashed"
    assert words in found.summary


def test_the_rank_behind_the_words(tmp_path: Path) -> None:
    found = verdict(tmp_path, "2023-08-11T06:42:43Z ERROR manager: Shard was signaled to shutdown with signal 7 rank=1")
    assert found.findings[0].ranks == (1,)


def test_a_warning_of_nccl_after_which_it_goes_another_way(tmp_path: Path) -> None:
    text = "n1:1:1 [0] graph/search.cc:765 NCCL WARN Could not find a path for pattern 4, falling back to simple order"
    assert verdict(tmp_path, text).findings == ()


@pytest.mark.parametrize(
    "text",
    [
        "MOAB_INFO:  job exceeded wallclock limit",
        "Aborted by PBS Server\nJob exceeded its walltime limit. Job was aborted\nExit_status=-11",
        "ERROR:RetryJob Not retrying job due to wall clock limit (job automatically killed)",
    ],
)
def test_a_limit_of_time(tmp_path: Path, text: str) -> None:
    found = verdict(tmp_path, text).findings[0]
    assert found.kind == "rank_killed"
    assert "time limit" in found.summary


def test_a_limit_that_was_only_set(tmp_path: Path) -> None:
    assert verdict(tmp_path, "Job 7 has a walltime limit of 72:00:00").findings == ()


def test_a_rank_that_aborted_was_not_killed_by_who_ended_the_others(tmp_path: Path) -> None:
    text = " 0: application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0\nsrun: error: n9: tasks 0-15: Killed"
    found = verdict(tmp_path, text).findings[0]
    assert (found.kind, found.ranks) == ("rank_crashed", (0,))


def test_the_rank_that_a_logger_names_beside_the_same_words(tmp_path: Path) -> None:
    text = (
        "HTTPError: 429 too many requests\n"
        "[2024-04-18 15:55:06] CRITICAL [util:158, rank=6] Uncaught HTTPError: 429 too many requests"
    )
    assert verdict(tmp_path, text).findings[0].ranks == (6,)
    other = text.replace("Uncaught HTTPError: 429 too many requests", "the hub is slow for HTTP")
    assert verdict(tmp_path, other).findings[0].ranks == ()


def test_the_rank_whose_traceback_ray_train_shows(tmp_path: Path) -> None:
    text = (
        "ray.train.WorkerGroupError: Training failed due to worker errors:\n[Rank 2 Error Snippet]:\n"
        'Traceback (most recent call last):\n  File "/src/train.py", line 40, in train\nValueError: bad shard'
    )
    found = verdict(tmp_path, text).findings[0]
    assert (found.kind, found.ranks) == ("rank_crashed", (2,))


TRIES = "[LightGBM] [Warning] Connecting to rank 5 failed, waiting for 1626 milliseconds\n"


def test_ranks_that_others_try_in_vain_to_reach(tmp_path: Path) -> None:
    found = verdict(tmp_path, TRIES * 2 + TRIES.replace("5", "4")).findings[0]
    assert (found.kind, found.ranks) == ("init_hang", (4, 5))
    assert verdict(tmp_path, TRIES).findings == (), "once is a start"
    assert verdict(tmp_path, TRIES * 3 + "[LightGBM] [Info] Trained a tree\n" * 50).findings == ()


def test_a_stack_of_dmlc(tmp_path: Path) -> None:
    text = "[bt] (0) /x/libmxnet.so(_ZN4dmlc15LogMessageFatalD1Ev+0x29) [0x2ac9829b1769]\n[bt] (1) /x/lib.so(f) [0x2]"
    assert "the process aborted" in verdict(tmp_path, text).findings[0].summary


def test_ports_by_rdma_link(tmp_path: Path) -> None:
    job = job_of(
        read([_written(tmp_path, "link mlx5_7/1 subnet_prefix fe80:0 lid 3403 state DOWN physical_state POLLING")])
    )
    ports = [port.facts for node in job.nodes.values() for port in node.ports]
    assert [(port.device, port.port, port.state, port.phys_state, port.lid) for port in ports if port] == [
        ("mlx5_7", 1, "DOWN", "Polling", 3403)
    ]


def test_a_text_that_begins_with_link_is_no_table_of_ports(tmp_path: Path) -> None:
    job = job_of(read([_written(tmp_path, "link to the run: https://x/1 state of the art")]))
    assert [port for node in job.nodes.values() for port in node.ports] == []


def _written(folder: Path, text: str) -> Path:
    path = folder / "out.txt"
    path.write_text(text + "\n")
    return path


def test_the_rank_and_the_host_behind_the_time_that_mpirun_puts_in_front(tmp_path: Path) -> None:
    text = "Tue Jul 25 14:01:57 2017[1,22]<stderr>:[n7:25098:0] Caught signal 11 (Segmentation fault)"
    found = verdict(tmp_path, text).findings[0]
    assert (found.kind, found.ranks, found.nodes) == ("rank_crashed", (22,), ("n7",))
    bare = "Mon Jul 30 11:53:22 2018<stderr>:[n7:28771:0:28771] Caught signal 11 (Segmentation fault)"
    assert verdict(tmp_path, bare).findings[0].nodes == ("n7",)
    assert verdict(tmp_path, "Tue Jul 25 14:01:57 2017[1,22]<stdout>: No errors").findings == ()


def test_a_limit_that_was_reached_at_some_time_ends_nothing(tmp_path: Path) -> None:
    text = "52428800 bytes (52 MB) copied\nslurmstepd: Exceeded step memory limit at some point."
    assert verdict(tmp_path, text).findings == ()
    killed = text.replace(" at some point.", ", being killed")
    assert verdict(tmp_path, killed).findings[0].kind == "rank_killed"


def test_the_node_from_which_a_pod_is_evicted(tmp_path: Path) -> None:
    text = "  Warning  Evicted  18m   kubelet, n04     The node was low on resource: ephemeral-storage. Container a"
    found = verdict(tmp_path, text).findings[0]
    assert (found.kind, found.nodes) == ("rank_killed", ("n04",))
    manager = 'eviction_manager.go:627] "Eviction manager: pod is evicted successfully" pod="a/b"'
    assert verdict(tmp_path, manager).findings[0].kind == "rank_killed"
    assert verdict(tmp_path, 'eviction_manager.go:405] "Eviction manager: pods ranked for eviction"').findings == ()


def test_a_node_that_has_not_what_a_pod_asks_for(tmp_path: Path) -> None:
    text = '"message":"Node didn\'t have enough resource: nvidia.com/gpu, requested: 8, used: 4, capacity: 8"'
    assert verdict(tmp_path, text).findings[0].kind == "launch_failed"
    assert verdict(tmp_path, "Every node did have enough resource: cpu").findings == ()
