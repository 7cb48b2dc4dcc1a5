"""What JAX, Horovod, engines, launchers and drivers say, and when it counts."""

from __future__ import annotations

import pytest

from tests.support.jobs import after, first, kinds


def test_tasks_that_did_not_come_to_the_start() -> None:
    job = after().says(
        "jax.barrier", None, ago=9, barrier="PjRT_Client_Connect::0", missing=[1, 3], joined=2, expected=4
    )
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("store_timeout", (1, 3))


def test_tasks_that_did_not_come_to_a_later_barrier() -> None:
    found = first(after().says("jax.barrier", None, ago=9, barrier="save", missing=[2]).verdict())
    assert (found.kind, found.ranks) == ("watchdog_timeout", (2,))


def test_a_task_that_lost_its_heartbeat() -> None:
    job = after().says("jax.lost", None, ago=9, tasks=[3], how="heartbeat")
    job.says("jax.victim", 0, ago=8)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_killed", (3,))


def test_a_task_that_tells_of_its_own_end_is_told_by_that() -> None:
    job = after().says("jax.lost", None, ago=9, tasks=[3], how="heartbeat")
    job.says("python.exception", 3, ago=20, type="KeyError", message="'x'", signature="user", frame="f (m.py:1)")
    assert first(job.verdict()).kind == "rank_crashed"
    assert "rank_killed" not in kinds(job.verdict())


def test_a_stall_of_a_run_that_ended_well() -> None:
    job = after().says("horovod.stalled", None, ago=90, op="a", missing=[1]).says("job.finished", 0, ago=1)
    assert kinds(job.verdict()) == []


def test_engines_wait() -> None:
    job = after()
    for ago in (300, 240):
        job.says("engine.waiting", None, ago=ago, seconds=60)
    assert kinds(job.verdict()) == [], "compiling takes as long"
    job.says("engine.waiting", None, ago=180, seconds=60)
    assert kinds(job.verdict()) == ["collective_stalled"]


def test_what_an_engine_kills_after_its_watchdog() -> None:
    job = after().says("engine.timeout", None, ago=9, call="scheduler", seconds=300, worker=4)
    job.says("process.signal", None, ago=8, signal="KILL", what="Killed")
    assert first(job.verdict()).kind == "watchdog_timeout"


def test_a_node_that_a_launcher_lost() -> None:
    verdict = after().says("launcher.lost_node", None, ago=9, launcher="mpi", host="d23n02").verdict()
    assert verdict.outcome == "crashed"
    assert first(verdict).kind == "node_unreachable"


def test_a_driver_that_names_the_gpu_once() -> None:
    job = after()
    job.says("kernel.gpu", None, ago=9, node="node1", problem="init_failed", bus_id="0000:5e:00")
    job.says("kernel.gpu", None, ago=9, node="node1", problem="init_failed")
    verdict = job.verdict()
    assert kinds(verdict) == ["gpu_lost"]
    assert first(verdict).gpus == ("node1:0000:5e:00",)


@pytest.mark.parametrize("address", ["\u00b2", "\u0663", "9" * 4000])
def test_an_address_that_a_node_makes_up_ends_no_diagnosis(address: str) -> None:
    job = after()
    job.says("kernel.gpu", None, ago=9, node="node1", problem="init_failed", bus_id=address)
    assert first(job.verdict()).gpus == (f"node1:{address}",)


def test_waits_at_the_store_that_the_log_ends_in() -> None:
    job = after()
    for ago in (30, 20, 10):
        job.says("torch.store_waiting", 0, ago=ago, joined=1, expected=8)
    assert "1 of 8 ranks had come" in first(job.verdict()).summary
    job.says("torch.store_complete", 0, ago=5)
    assert kinds(job.verdict()) == []


def test_more_at_the_store_than_the_group_has() -> None:
    verdict = after().says("torch.store_waiting", 0, ago=10, joined=6, expected=2).verdict()
    assert first(verdict).kind == "init_hang"
    assert "a group of 2, to whose store 6 had come" in first(verdict).summary


def test_a_group_that_is_just_complete_waits_for_nobody() -> None:
    assert kinds(after().says("torch.store_waiting", 0, ago=10, joined=2, expected=2).verdict()) == []


def test_a_process_that_the_watchdog_took_down() -> None:
    job = after().says("torch.taken_down", 6, ago=9)
    assert first(job.verdict()).kind == "watchdog_timeout"
    job.says("python.exception", 3, ago=20, type="KeyError", message="'x'", signature="user", frame="f (m.py:1)")
    assert "watchdog_timeout" not in kinds(job.verdict())


def test_an_error_s_trail() -> None:
    job = after().says("nccl.trail", 0, ago=9, at_file="misc/socket.cc", code=2, error="Operation now in progress")
    assert kinds(job.verdict()) == [], "it did not reach the start"
    job.says("nccl.trail", 0, ago=9, at_file="bootstrap.cc", code=2)
    assert first(job.verdict()).kind == "nccl_init_failed"


def test_a_worker_of_an_engine_that_died_without_a_word() -> None:
    reason = "Worker proc VllmWorker-3 died unexpectedly"
    found = first(after().says("launcher.exit", None, ago=9, launcher="vllm", task=3, reason=reason).verdict())
    assert (found.kind, found.ranks) == ("child_failed_no_detail", (3,))
    assert "no word but vLLM's" in found.summary


def test_an_engine_that_waited_once_and_wrote_the_step_down() -> None:
    job = after().says("engine.waiting", None, ago=9, seconds=60)
    assert not job.verdict().findings
    assert kinds(job.says("engine.dumped", None, ago=8).verdict()) == ["collective_stalled"]


def test_gloo_s_mesh_that_did_not_come_about() -> None:
    job = after().says("gloo.connect_failed", 1, ago=9, error="no error")
    assert kinds(job.verdict()) == ["nccl_connect_failed"]
    assert "nccl_connect_failed" not in kinds(job.says("gloo.closed", 2, ago=9, peer="10.0.0.7:5").verdict())


def test_page_faults_of_a_program_are_no_reason_to_drain() -> None:
    found = first(after().says("kernel.gpu", None, ago=9, problem="amd_page_fault", bus_id="0000:c6:00").verdict())
    assert (found.kind, found.severity) == ("gpu_xid", "warning")
    assert "program" in found.advice


def test_an_adapter_whose_firmware_does_not_answer() -> None:
    job = after().says("kernel.link", None, ago=9, device="mlx5_core 0000:5e:00.0", problem="health compromised")
    found = first(job.verdict())
    assert (found.kind, found.severity) == ("kernel_trouble", "critical")
    assert "0000:5e:00.0" in found.summary


def test_links_that_went_down_after_they_were_up() -> None:
    device = "mlx5_core 0000:5e:00.0 ens1f0"
    job = after().says("kernel.link", None, ago=90, device=device, up=False)
    assert not job.verdict().findings  # as at boot
    job.says("kernel.link", None, ago=80, device=device, up=True)
    assert not job.verdict().findings
    job.says("kernel.link", None, ago=70, device=device, up=False)
    assert set(kinds(job.verdict())) == {"ib_port_down"}
    job.says("kernel.link", None, ago=60, device=device, up=True)
    assert set(kinds(job.verdict())) == {"ib_link_flapped"}
