"""Errors of transports other than NCCL, heaps that broke, reports without their beginning."""

import pytest

from tests.support.logs import kinds, only, parse

ERRORS = {
    "[1.5] [n1:5:0] ib_mlx5_log.c:113  UCX  ERROR Error on QP 0x1: Transport retry count exceeded": "retry_exceeded",
    "libfabric:1:1687::efa:ep_ctrl:x(): warn: Libfabric EFA provider has encountered an internal error:": "other",
    "Failed to modify QP to RTR: Connection timed out": "queue_pair",
    "Couldn't allocate MR": "memory",
    "ibv_reg_mr failed with Cannot allocate memory": "memory",
    "[[1,8],1][btl_openib_component.c:29:handle_wc] from n1 to: n2 error polling HP CQ with status RETRY EXCEEDED "
    "ERROR status number 12 for wr_id 1 opcode 0": "retry_exceeded",
    "[n1][[1,1],0][btl_tcp.c:1] connect() to 10.0.0.2 failed: No route to host (113)": "connect",
}


@pytest.mark.parametrize(("text", "signature"), ERRORS.items())
def test_errors_of_transports(text: str, signature: str) -> None:
    assert only(parse(text + "\n"), "fabric.error").data["signature"] == signature


@pytest.mark.parametrize(
    "text",
    [
        "libfabric:123:1687::core:core:ofi_hmem_init():222<info> Hmem iface FI_HMEM_CUDA not supported",
        "n1:1:1 [0] NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
        "[1.5] [n1:58:0] parser.c:1911 UCX  WARN  unused environment variable: UCX_HOME",
        "libfabric:core:core:ofi_hmem_init():222<info> Hmem iface FI_HMEM_CUDA not supported",
        "libfabric:12:170::cxi:core:fi_param_get_():279<info> variable coll_timeout_usec=<not set>",
        "polling HP CQ with status SUCCESS",
        "created QP 0x12 on mlx5_0, 4 MR registered",
    ],
)
def test_what_is_no_error_of_a_transport(text: str) -> None:
    assert "fabric.error" not in kinds(parse(text + "\n"))


@pytest.mark.parametrize(
    "text",
    [
        "free(): invalid pointer",
        "double free or corruption (!prev)",
        "malloc(): unsorted double linked list corrupted",
        "*** Error in `python': free(): invalid next size (fast): 0x0000000001 ***",
        "munmap_chunk(): invalid pointer",
        "corrupted size vs. prev_size",
        "*** stack smashing detected ***: terminated",
    ],
)
def test_a_broken_heap(text: str) -> None:
    event = only(parse(text + "\n"), "process.signal")
    assert (event.data["signal"], event.data["heap"]) == ("ABRT", True)


def test_a_report_without_its_beginning() -> None:
    event = only(parse("  exitcode  : -11 (pid: 345)\n  error_file: <N/A>\n"), "elastic.failed")
    assert (event.data["signal"], event.data["failed_pid"]) == ("SEGV", 345)
    ranked = "  rank      : 3 (local_rank: 1)\n  exitcode  : 1 (pid: 345)\n"
    assert only(parse(ranked), "elastic.failure").data["failed_rank"] == 3


def test_retries_that_nobody_counts_all_count() -> None:
    line = "n1:1:2 [1] NCCL INFO Call to connect returned Connection refused, retrying\n"
    assert kinds(parse(line * 4)).count("nccl.connect_retry") == 4


ENDS = {
    "*** SIGSEGV (@(nil)), see go/stacktraces#s15 received by PID 160 (TID 3418) on cpu 100; stack trace: ***": "SEGV",
    "F0401 10:00:00.1 12 client.cc:11] Check failed: status.ok() (1 vs. 2)": "ABRT",
}


@pytest.mark.parametrize(("text", "signal"), ENDS.items())
def test_ends_of_programs_in_c(text: str, signal: str) -> None:
    assert only(parse(text + "\n"), "process.signal").data["signal"] == signal


def test_workers_that_broke() -> None:
    broke = "ERROR: Unexpected segmentation fault encountered in worker.\n"
    assert only(parse(broke), "torch.worker_died").data["reason"] == "segfault"
    folded = "RuntimeError: DataLoader worker (pid 47) is killed by signal: Bus\n"
    assert {event.data["reason"] for event in parse(folded) if event.kind == "torch.worker_died"} == {"bus"}


def test_words_of_kubernetes() -> None:
    assert only(parse("command terminated with exit code 137\n"), "launcher.exit").data["signal"] == "KILL"
    assert "launcher.exit" not in kinds(parse("command terminated with exit code 1\n"))
    evicted = only(parse("The node was low on resource: memory.\n"), "slurm.cancelled")
    assert (evicted.data["launcher"], evicted.data["reason"]) == ("kubernetes", "evicted")


def test_a_node_that_slurm_could_not_launch_on() -> None:
    event = only(
        parse("srun: error: Task launch for 36.0 failed on node cn1: Socket timed out on send/recv operation\n"),
        "launcher.lost_node",
    )
    assert (event.host, event.data["why"]) == ("cn1", "Socket timed out on send/recv operation")


def test_a_node_that_refused_what_slurm_launched_on_it() -> None:
    said = parse("srun: error: Task launch for 36.0 failed on node cn1: Job credential expired\n")
    assert (only(said, "launcher.refused").host, kinds(said)) == ("cn1", ["launcher.refused"])


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: timeout waiting for task launch, started 0 of 1 tasks",
        "srun: StepId=2166087.0 aborted before step completely launched.",
    ],
)
def test_tasks_that_did_not_start(line: str) -> None:
    assert only(parse(line + "\n"), "launcher.refused").data["vague"] is True


def test_a_worker_s_last_state_among_torchelastic_s_events() -> None:
    line = (
        '{"name": "torchelastic.worker.status.%s", "source": "WORKER", "metadata": {"global_rank": 3, '
        '"worker_id": "113", "hostname": "n1", "state": "FAILED"}}\n'
    )
    event = only(parse(line % "FAILED"), "elastic.failure")
    assert (event.data["failed_rank"], event.data["failed_pid"], event.host) == (3, 113, "n1")
    assert "elastic.failure" not in kinds(parse(line % "SUCCEEDED"))
    assert "elastic.failure" not in kinds(parse('{"name": "torchelastic.worker.status.FAILED", "metadata": 7}\n'))


def test_a_bare_time_in_front_of_a_traceback() -> None:
    lines = ("Traceback (most recent call last):", '  File "a.py", line 3, in f', "    g()", "KeyError: 1")
    event = only(parse("".join(f"Nov 14 18:00:25 {line}\n" for line in lines)), "python.exception")
    assert (event.data["frame"], event.data["type"]) == ("a.py:3 in f", "KeyError")


def test_a_port_that_reports_an_async_error_event() -> None:
    line = "n1:311:405 [0] transport/net_ib.cc:199 NCCL WARN NET/IB : mlx5_32:1 Got async error event: port error\n"
    event = only(parse(line), "nccl.warn")
    assert (event.data["signature"], event.data["device"]) == ("ib_port_error", "mlx5_32")


def test_nccl_s_error_in_the_words_of_tensorflow_s_plugins() -> None:
    line = "2023-10-26 12:12:06.7: E nccl_collective.cc:461] NCCL communication aborted: unhandled system error\n"
    assert only(parse(line), "torch.watchdog_error").data["error"] == "unhandled system error"


@pytest.mark.parametrize(
    ("line", "signature", "host"),
    [
        ("ERROR work completion 3 failed: remote access error", "completion", ""),
        ("WC status 12: transport retry counter exceeded", "retry_exceeded", ""),
    ],
)
def test_completions_in_the_words_of_verbs(line: str, signature: str, host: str) -> None:
    event = only(parse(line + "\n"), "fabric.error")
    assert (event.data["library"], event.data["signature"], event.host) == ("verbs", signature, host)
