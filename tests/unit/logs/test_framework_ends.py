"""Ends that engines, operators and other vendors' runtimes tell of, line by line."""

from __future__ import annotations

import pytest

from tests.support.logs import only, parse


def test_a_worker_of_vllm_that_died() -> None:
    line = "(EngineCore pid=26) ERROR 09-05 21:05:39 [multiproc_executor.py:146] Worker proc VllmWorker-3 died unexpectedly, shutting down.\n"  # noqa: E501
    event = only(parse(line), "launcher.exit")
    assert (event.data["launcher"], event.data["task"]) == ("vllm", 3)


def test_a_step_that_an_engine_wrote_down() -> None:
    line = "(EngineCore pid=1) ERROR 02-03 22:43:35 [dump_input.py:72] Dumping input data for V1 LLM engine (v0.16) with config: model='m'\n"  # noqa: E501
    assert only(parse(line), "engine.dumped").data == {}


@pytest.mark.parametrize(
    ("line", "host", "signal"),
    [
        ("Error pod pytorch-simple-worker-0 container pytorch exitCode: 1 terminated", "pytorch-simple-worker-0", None),
        ("Error pod job-worker-4 container main exitCode: 137 terminated", "job-worker-4", "KILL"),
        ("      Reason:       OOMKilled", "", "KILL"),
        ('            "reason": "OOMKilled",', "", "KILL"),
    ],
)
def test_what_kubernetes_says(line: str, host: str, signal: str | None) -> None:
    event = only(parse(line + "\n"), "launcher.exit")
    assert (event.host, event.data.get("signal"), event.data["launcher"]) == (host, signal, "kubernetes")


def test_amd_s_page_faults() -> None:
    line = (
        "Memory access fault by GPU node-1 (Agent handle: 0x26) on address 0x7f5c42600000. Reason: Page not present.\n"
    )
    assert only(parse(line), "torch.cuda_error").data["signature"] == "illegal_access"
    line = "[1.5] amdgpu 0000:c6:00.0: amdgpu: VM_L2_PROTECTION_FAULT_STATUS:0x00341051\n"
    assert only(parse(line), "kernel.gpu").data == {"problem": "amd_page_fault", "bus_id": "0000:c6:00"}


def test_completions_that_are_quoted_without_nccl_s_label() -> None:
    line = "NET/IBP:Got completion from peer 7.6.13.83<36315> with status=12 opcode=32698 len=32696 vendor err 129\n"
    assert only(parse(line), "nccl.warn").data["signature"] == "ib_retry_exceeded"


def test_an_adapter_that_its_driver_could_not_load() -> None:
    event = only(parse("[5.6] mlx5_core 0000:01:00.0: mlx5_load_one failed with error code -22\n"), "kernel.link")
    assert event.data["device"] == "mlx5_core 0000:01:00.0"


def test_a_report_of_torchrun_behind_a_stream_s_name() -> None:
    block = (
        "Root Cause (first observed failure):",
        "[0]:",
        "  rank      : 1 (local_rank: 1)",
        "  exitcode  : 1 (pid: 7)",
    )
    text = "".join(f"stderr: {line}\n" for line in (*block, "=" * 40))
    assert only(parse(text), "elastic.failure").data["failed_rank"] == 1


def test_jax_s_waits_that_name_nobody() -> None:
    line = "E1 pjrt.cc:3072] Execution of replica 0 failed: DEADLINE_EXCEEDED: GetKeyValue() timed out with key: k and duration: 10m\n"  # noqa: E501
    assert only(parse(line), "jax.barrier").data["barrier"] == "GetKeyValue"
    line = "E1 client.cc:96] Coordination service agent in error status: DEADLINE_EXCEEDED: Deadline Exceeded\n"
    assert only(parse(line), "jax.no_coordinator")


def test_a_process_of_jax_that_waits_in_vain_for_the_others_at_the_start() -> None:
    text = (
        "F1125 01:26:24.444004     878 client.h:80] Terminating process because the JAX distributed service detected "
        "fatal errors. This most likely indicates that another task died; see the other task logs for more details. "
        "absl::Status: DEADLINE_EXCEEDED: Deadline Exceeded\n\n"
        "RPC: /xla.coordination.CoordinationService/RegisterTask\n"
    )
    events = parse(text)
    assert only(events, "jax.no_coordinator").data["phase"] == "register"
    assert only(events, "process.signal").data["consequence"] is True, "it ended as others did not come"
    polled = parse("RPC: /xla.coordination.CoordinationService/PollForError\n")
    assert not [event for event in polled if event.kind == "jax.no_coordinator"]


def test_an_abort_that_tells_of_nobody_else_is_no_consequence() -> None:
    events = parse("F1125 01:26:24.444004     878 device.cc:80] Non-OK-status: out of range\n")
    assert "consequence" not in only(events, "process.signal").data


def test_deepspeed_names_the_rank_that_it_started_last_whoever_failed() -> None:
    line = "[2026-01-02 08:14:05,117] [ERROR] [launch.py:341:sigkill_handler] ['python', '-u', 'train.py', '--local_rank=7'] exits with return code = -11\n"  # noqa: E501
    event = only(parse(line), "launcher.exit")
    assert event.rank is None
    assert event.data == {"launcher": "deepspeed", "exitcode": -11, "signal": "SEGV"}
