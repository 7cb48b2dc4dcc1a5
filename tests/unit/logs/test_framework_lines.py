"""Lines of JAX, Horovod, inference engines, nccl-tests, launchers and drivers, and what stands in front of lines."""

from __future__ import annotations

import pytest

from tests.support.logs import kinds, of_kind, only, parse

TASK = "/job:jax_worker/replica:0/task:"


def test_a_barrier_of_jax_lists_who_did_not_come() -> None:
    text = f"""Traceback (most recent call last):
  File "/w/train.py", line 9, in main
    client.connect()
jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: start. Timed out task names:
{TASK}3
{TASK}1

Additional GRPC error information
"""
    event = only(parse(text), "jax.barrier")
    assert (event.data["barrier"], event.data["missing"]) == ("start", [1, 3])


def test_a_barrier_in_a_service_s_log_names_the_late_and_not_the_first() -> None:
    text = f"""E0512 10:11:12.0 7 service.cc:500] Barrier timed out. Id: save::0. Look at logs to debug further.
# of tasks that reached the barrier: 3/4.
The first task at the barrier: {TASK}0. Some timed out task names:
{TASK}2
step 12
"""
    event = only(parse(text), "jax.barrier")
    assert (event.data["missing"], event.data["joined"], event.data["expected"]) == ([2], 3, 4)


@pytest.mark.parametrize(
    "text",
    [
        f"UNAVAILABLE: Task {TASK}3 heartbeat timeout. This indicates that the remote task has failed",
        f"The following tasks are unhealthy (stopped sending heartbeats):\n{TASK}3\nThe tasks have crashed.",
    ],
)
def test_heartbeats_of_jax(text: str) -> None:
    assert only(parse(text + "\n"), "jax.lost").data["tasks"] == [3]


def test_tasks_that_connect_say_nothing() -> None:
    assert (
        parse(f"I coordination_service.cc:553] {TASK}1 has connected to coordination service. Incarnation: 17\n") == []
    )


def test_engines() -> None:
    line = "(EngineCore_DP0 pid=9) INFO 05-28 14:44:28 [shm_broadcast.py:6] No available shared memory broadcast block found in 60 seconds.\n"  # noqa: E501
    assert kinds(parse(line * 4)) == ["engine.waiting"] * 4, "each is a minute"
    event = only(parse("[2025-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)\n"), "engine.timeout")
    assert (event.data["worker"], event.data["seconds"]) == (4, 300)


ROWS = """#       size         count      type   redop    root     time   algbw   busbw #wrong time algbw busbw #wrong
node1:77:88 [0] NCCL INFO Connected all trees
     1048576        262144     float     sum      -1    58.75   17.85   31.23      0    58.68   17.87   31.27      0
     2097152        524288     float     sum      -1    77.03   27.23   47.64      2    76.75   27.32   47.82      0
# Avg bus bandwidth    : 39.4
"""


def test_a_table_of_nccl_tests() -> None:
    event = only(parse(ROWS), "nccl_tests.table")
    assert (event.data["sizes"], event.data["busbw"]) == ([1048576, 2097152], [31.23, 47.64])
    assert (event.data["wrong"], event.data["whole"], event.data["average"]) == (2, True, 39.4)


def test_a_table_that_was_cut_off_or_has_no_rows() -> None:
    cut = "\n".join(ROWS.splitlines()[:3]) + "\n"
    assert only(parse(cut), "nccl_tests.table").data["whole"] is False
    assert parse(ROWS.splitlines()[0] + "\n") == []


def test_a_test_that_gave_up() -> None:
    event = only(parse("node4: Test NCCL failure common.cu:1005 'unhandled system error / '\n"), "nccl_tests.failed")
    assert (event.host, event.data["error"], event.data["consequence"]) == ("node4", "unhandled system error", False)


def test_the_nccl2_backend_s_words() -> None:
    text = "[TC][rank=2][name=dp] Aborting process due to timeout on rank 2 - timeout watchdog detected operation timeout\n"  # noqa: E501
    event = only(parse(text), "torch.watchdog_timeout")
    assert (event.data["group_rank"], event.data["group_name"]) == (2, "dp")
    text = (
        "[TC][rank=1][name=dp] Aborting process due to error on rank 1 - nccl hit async error: unhandled cuda error\n"
    )
    assert only(parse(text), "torch.watchdog_error").data["error"] == "unhandled cuda error"
    assert parse("Aborting process due to timeout on rank 2 of the queue\n") == []


def test_gloo_says_how_many_a_group_has() -> None:
    line = "[Gloo] Rank 1 is connected to 2 peer ranks. Expected number of connected peer ranks is : 2\n"
    assert only(parse(line), "job.size").data["size"] == 3
    assert parse(line.replace("2", "0")) == [], "a group of one"


def test_sizes_of_jobs() -> None:
    assert only(parse("Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8\n"), "job.size").data["size"] == 8
    assert parse("tensor_model_parallel_world_size: 2\n") == []


def test_nodes_that_open_mpi_lost() -> None:
    text = "  HNP daemon   : [[27407,0],0] on node head\n  Remote daemon: [[27407,0],1] on node d23n02\n"
    assert only(parse(text), "launcher.lost_node").host == "d23n02"
    assert (
        only(parse("   hostname:  ip-10-15-20-17.internal\n"), "launcher.lost_node").host == "ip-10-15-20-17.internal"
    )


@pytest.mark.parametrize(
    ("text", "problem", "field"),
    [
        ("[ 8.3] NVRM: GPU6 _kgspLogRpcTimeout: *** GSP Timeout ***", "gsp_timeout", {"gpu": 6}),
        ("[ 8.3] NVRM: GPU 0000:5e:00.0: RmInitAdapter failed! (0x26:0x56)", "init_failed", {"bus_id": "0000:5e:00"}),
        ("[ 8.3] NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!", "locked", {}),
        (
            "[ 8.3] amdgpu 0000:1c:00.0: {1}uncorrectable hardware error(E) detected!",
            "amd_memory",
            {"bus_id": "0000:1c:00"},
        ),
        ("[ 8.3] amdgpu 0000:1c:00.0: amdgpu: GPU reset begin!", "amd_reset", {"bus_id": "0000:1c:00"}),
        ("[ 8.3] amdgpu 0000:03:00.0: GPU reset", "amd_reset", {"bus_id": "0000:03:00"}),
        ("[ 8.3] [drm:amdgpu_device_gpu_recover [amdgpu]] *ERROR* VRAM is lost!", "amd_reset", {}),
        ("[ 8.3] [drm:gfx_v9_0_ring_test_ring [amdgpu]] *ERROR* amdgpu: ring 1 test failed (-110)", "amd_reset", {}),
    ],
)
def test_drivers_without_an_xid(text: str, problem: str, field: dict[str, object]) -> None:
    event = only(parse(text + "\n"), "kernel.gpu")
    assert event.data == {"problem": problem, **field}


def test_what_drivers_say_when_nothing_is_wrong() -> None:
    assert parse("[ 8.3] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01\n") == []
    assert parse("[ 8.3] amdgpu 0000:1c:00.0: amdgpu: SMU is initialized successfully!\n") == []
    assert parse("[ 8.3] amdgpu: Fence fallback timer expired on ring sdma0\n") == []
    assert parse("[ 8.3] xe 0000:2b:00.0: [drm] Using GuC firmware from xe/bmg_guc_70.bin version 70.44.1\n") == []
    assert parse("[ 8.3] i915 0000:00:02.0: [drm] GT0: GUC: submission enabled\n") == []


def test_the_host_in_a_syslog_line() -> None:
    text = "Oct 11 06:07:26 storage1 kernel: INFO: task glusterfsd:26120 blocked for more than 120 seconds.\n"
    assert only(parse(text), "kernel.hung_task").host == "storage1"
    assert (
        only(parse("[ 47.9] INFO: task nfsd:3780 blocked for more than 120 seconds.\n"), "kernel.hung_task").host == ""
    )


TRACEBACK = """Traceback (most recent call last):
  File "/w/train.py", line 10, in main
    x = shards[k]
KeyError: 'shard'
"""


@pytest.mark.parametrize("label", ["[f05974bf4c4a:05492] ", "[socket.cpp:436] ", "[cuda:0] ", "[step:12] "])
def test_what_looks_like_a_host_and_a_rank_and_is_none(label: str) -> None:
    assert {event.rank for event in parse("".join(label + line + "\n" for line in TRACEBACK.splitlines()))} <= {None}


def test_a_label_behind_a_progress_bar() -> None:
    text = "  0%| | 0/247 [00:00<?, ?it/s][rank2]: " + "\n[rank2]: ".join(TRACEBACK.splitlines()) + "\n"
    assert only(parse(text), "python.exception").rank == 2


def test_torchelastic_s_indented_traceback() -> None:
    text = "  traceback : " + "\n  ".join(TRACEBACK.splitlines()) + "\n"
    event = only(parse(text), "python.exception")
    assert (event.data["type"], event.data.get("cut")) == ("KeyError", None)


@pytest.mark.parametrize(
    ("line", "signature"),
    [
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", "host_memory"),
        ("OutOfMemoryError: Task was killed due to the node running low on memory.", "host_memory"),
        ("OutOfMemoryError: Allocation on device 0 would exceed allowed memory.", "out_of_memory"),
        ("torch.OutOfMemoryError: Tried to allocate 2 GiB", "out_of_memory"),
        ("OutOfMemoryError: quota of the account", "user"),
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes.", "out_of_memory"),
    ],
)
def test_whose_memory_ran_out(line: str, signature: str) -> None:
    events = parse(f'Traceback (most recent call last):\n  File "/w/t.py", line 1, in f\n    g()\n{line}\n')
    assert only(events, "python.exception").data["signature"] == signature


def test_a_launcher_s_line_ends_a_traceback() -> None:
    text = (
        TRACEBACK.rpartition("KeyError")[0]
        + "slurmstepd: error: *** JOB 12 ON n7 CANCELLED AT 2024-03-01T10:00:00 DUE TO JOB REQUEUE ***\n"
    )
    events = parse(text)
    assert only(events, "python.exception").data["type"] == ""
    assert only(events, "slurm.cancelled").data["reason"] == "job_requeue"


def test_nccl_s_trail_is_kept_and_its_talk_is_not() -> None:
    text = "g105:26:27 [6] NCCL INFO bootstrap.cc:275 -> 2\ng105:26:27 [6] NCCL INFO Channel 00 : 0 -> 1 via P2P\n"
    assert [(event.kind, event.data["code"]) for event in parse(text)] == [("nccl.trail", 2)]


def test_operations_that_an_adapter_refuses_are_no_port_errors() -> None:
    text = (
        "n1:1:2 [0] net_ib.cc:1 NCCL WARN NET/IB : mlx5_0:1 Got async event : local access violation work queue error\n"
    )
    assert only(parse(text), "nccl.warn").data["signature"] == "ib_queue_error"
    text = "n1:1:2 [0] net_ib.cc:1 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error\n"
    assert only(parse(text), "nccl.warn").data["signature"] == "ib_port_error"


def test_why_ssh_does_not_reach_a_node() -> None:
    event = only(
        parse("ssh: Could not resolve hostname worker-0.workers: Name or service not known\n"), "launcher.lost_node"
    )
    assert (event.host, event.data["why"]) == ("worker-0.workers", "Name or service not known")
    event = only(parse("ssh: connect to host n7 port 22: No route to host\n"), "launcher.lost_node")
    assert (event.host, event.data["why"]) == ("n7", "No route to host")


def test_reports_of_torchrun_that_are_not_whole() -> None:
    event = only(parse("traceback : Signal 9 (SIGKILL) received by PID 492347\n"), "elastic.failed")
    assert event.data == {"failed_pid": 492347, "signal": "KILL"}
    assert only(parse("ERROR:api:failed (exitcode: -9)\n"), "elastic.failed").data["signal"] == "KILL"


@pytest.mark.parametrize(
    ("line", "signature"),
    [
        ("RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution", "nvlink"),
        ("RuntimeError: cuda runtime error (39) : uncorrectable ECC error encountered at /p/THC.cpp:265", "ecc"),
        ("Internal: failed call to cuInit: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered", "ecc"),
    ],
)
def test_words_of_broken_devices(line: str, signature: str) -> None:
    assert of_kind(parse(line + "\n"), "torch.cuda_error")[0].data["signature"] == signature


def test_a_machine_without_a_device_says_so_and_no_more() -> None:
    assert parse("E cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no device is detected\n") == []


def test_an_end_that_follows_another_one() -> None:
    text = "terminate called after throwing an instance of 'std::system_error'\n  what():  Transport endpoint is not connected\n"  # noqa: E501
    assert only(parse(text), "process.signal").data["consequence"] is True
