"""What ranks say themselves when they fail, and what must not be made of it."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.samples.fabric import Interface
from hangtop.diagnosis.failures.record import failures
from hangtop.diagnosis.job import NetworkUse
from tests.support.jobs import Sketch, after, first, kinds


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("torch.cuda_error", {"error": "uncorrectable ECC error encountered", "signature": "ecc"}),
        ("torch.watchdog_error", {"error": "CUDA error: uncorrectable ECC error encountered"}),
        ("nccl.warn", {"signature": "cuda", "error": "uncorrectable ECC error encountered"}),
    ],
)
def test_cuda_s_word_for_broken_memory_is_hardware_whoever_prints_it(kind: str, data: dict[str, Any]) -> None:
    verdict = after().says(kind, 3, ago=9, **data).verdict()
    assert (first(verdict).kind, first(verdict).ranks) == ("gpu_ecc", (3,))
    assert "rank_crashed" not in kinds(verdict), "one cause is told once"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("torch.watchdog_error", {"error": "CUDA error: device-side assert triggered"}),
        ("nccl.warn", {"signature": "cuda", "error": "device-side assert triggered"}),
        ("torch.cuda_error", {"error": "device-side assert triggered", "signature": "device_assert"}),
    ],
)
def test_an_error_of_a_program_s_own_is_a_crash_of_the_first_rank(kind: str, data: dict[str, Any]) -> None:
    job = after().says(kind, 2, ago=9, **data)
    job.says("process.signal", 2, ago=8, signal="ABRT", what="c10::DistBackendError")
    job.says("nccl.warn", 0, ago=7, signature="connection_closed", peer="10.0.0.7<4000>")
    verdict = job.verdict()
    assert (first(verdict).kind, first(verdict).ranks) == ("rank_crashed", (2,))
    assert "device-side assert" in first(verdict).summary


def test_another_error_of_the_watchdog_is_none_of_cuda_s() -> None:
    job = after().says("torch.watchdog_error", 1, ago=9, error="remote process exited", consequence=True)
    assert kinds(job.verdict()) == ["nccl_remote_error"]


def test_gloo_s_time_out_names_who_says_nothing() -> None:
    job = after()
    for rank in (0, 2):
        job.says("gloo.timeout", rank, ago=9, ms=8000, direction="recv")
    job.says("gloo.closed", 3, ago=8, peer="[10.0.0.2]:4000")
    for rank in range(4):
        job.says("elastic.failure", None, ago=5, failed_rank=rank, exitcode=-15, signal="SIGTERM")
    found = next(one for one in job.verdict().findings if one.kind == "watchdog_timeout")
    assert found.ranks == (1,)
    assert "ranks 0,2 waited in vain to receive over gloo for 8 s" in found.summary


def test_gloo_s_time_out_of_all_ranks_accuses_nobody() -> None:
    job = after()
    for rank in range(4):
        job.says("gloo.timeout", rank, ago=9, ms=8000, direction="send")
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("watchdog_timeout", ())
    assert "send" in found.summary


@pytest.mark.parametrize(("tried", "told"), [(34, True), (3, False)])
def test_a_connection_that_is_tried_again_and_again_is_told(tried: int, told: bool) -> None:
    job = after().says("nccl.connect_retry", 3, ago=9, error="No route to host", tried=tried, of=34)
    assert [one.kind for one in job.verdict().findings] == (["nccl_connect_failed"] if told else [])


def test_a_traceback_without_its_end_gives_way_to_what_nccl_says() -> None:
    cut = after().says("python.exception", 3, ago=8, type="", message="", frames=["a.py:1 in f"], cut=True)
    assert [one.kind for one in cut.verdict().findings] == ["rank_crashed"]
    cut.says("nccl.warn", 3, ago=9, signature="connect_failed", peer="10.0.0.4<5>", error="No route to host")
    assert [one.kind for one in cut.verdict().findings] == ["nccl_connect_failed"]


def test_a_bare_exit_code_gives_way_to_what_nccl_says() -> None:
    bare = after().says("elastic.failure", None, ago=5, failed_rank=0, exitcode=1)
    assert [one.kind for one in bare.verdict().findings] == ["child_failed_no_detail"]
    bare.says("nccl.warn", None, ago=9, signature="connect_failed", peer="10.0.0.4<5>", error="No route to host")
    assert [one.kind for one in bare.verdict().findings] == ["nccl_connect_failed"]


def test_ray_s_word_alone_that_a_worker_is_gone() -> None:
    found = first(after().says("launcher.exit", None, ago=9, launcher="ray", reason="The actor died").verdict())
    assert found.kind == "child_failed_no_detail"
    assert "no word but Ray's (The actor died)" in found.summary
    assert not after().says("launcher.exit", None, ago=9, launcher="deepspeed").verdict().findings


@pytest.mark.parametrize(("host", "rank"), [("10.0.0.2", 3), ("10.0.0.9", None)])
def test_a_worker_is_known_by_its_pid_at_the_address_of_its_node(host: str, rank: int | None) -> None:
    job = Sketch(world=4, nodes=2, looks=2)
    job.node("node2", network=NetworkUse((Interface("eth0", 1500, None, True, ["10.0.0.2/24"], "physical"),)))
    job.says("launcher.exit", None, ago=9, launcher="ray", reason="A worker died", owner=1003, host=host)
    assert [failure.rank for failure in failures(job.job())] == [rank]


def test_what_c_plus_plus_threw_is_told() -> None:
    what = "std::runtime_error: NCCL Error 1: unhandled cuda error"
    assert what in first(after().says("process.signal", 2, ago=9, signal="ABRT", what=what).verdict()).summary
    shell = first(after().says("process.signal", 2, ago=9, signal="ABRT", what="bash: line 1: 99 Aborted").verdict())
    assert "signal ABRT" in shell.summary


def test_a_warning_that_nobody_knows_is_shown() -> None:
    job = after().says("nccl.warn", 3, ago=9, signature="other", message="the flux is out of phase")
    assert "the flux is out of phase" in job.verdict().summary


def test_sizes_that_nccl_compared_are_told() -> None:
    warned = after().says("nccl.warn", 3, ago=9, signature="size_mismatch", peer="n2<4>", bytes=65536, expected=496640)
    assert "65536 bytes from n2<4>, 496640 expected" in first(warned.verdict()).summary


def timed_out(*ranks: int) -> Sketch:
    job = after()
    for rank in ranks:
        job.says("torch.watchdog_timeout", rank, ago=9, op="ALLREDUCE", seq=7, ran_ms=600_000, group_name="default_pg",
                 source="job.log")  # fmt: skip
    job.world = 0
    return job


def test_a_gap_in_the_ranks_that_timed_out_is_who_did_not_come() -> None:
    found = first(timed_out(1, 2, 3).verdict())
    assert (found.kind, found.ranks) == ("watchdog_timeout", (0,))
    assert "timed out on 3 ranks" in found.summary


def test_one_rank_s_time_out_alone_accuses_nobody() -> None:
    found = first(timed_out(5).verdict())
    assert found.ranks == ()
    assert "no word" in found.summary
    nobody = after().says("torch.watchdog_timeout", None, ago=9, op="ALLREDUCE", seq=7, ran_ms=600_000)
    assert "timed out after" in first(nobody.verdict()).summary


def test_an_abort_after_a_time_out_is_torch_s_own() -> None:
    job = timed_out(0, 1, 2)
    for rank in (0, 1, 2):
        job.says("process.signal", rank, ago=8, signal="ABRT", what="c10::DistBackendError")
    assert kinds(job.verdict()) == ["watchdog_timeout"]
    alone = after().says("process.signal", 2, ago=8, signal="ABRT", what="std::runtime_error: x")
    assert (first(alone.verdict()).kind, first(alone.verdict()).ranks) == ("rank_crashed", (2,))


def test_bare_exit_codes_of_one_second_are_told_together() -> None:
    job = after()
    for rank in (1, 2, 0):
        job.says("elastic.failure", None, ago=60, root=rank == 0, failed_rank=rank, exitcode=1, detail=False)
    verdict = job.verdict()
    assert kinds(verdict) == ["child_failed_no_detail"]
    assert first(verdict).ranks == (0, 1, 2)
    job.says("python.exception", 2, ago=61, type="KeyError", message="'x'", signature="user", frame="f (m.py:1)")
    assert (first(job.verdict()).kind, first(job.verdict()).ranks) == ("rank_crashed", (2,))


def test_a_batch_system_s_word_alone_is_an_end() -> None:
    found = first(after().says("slurm.cancelled", None, ago=61, reason="time_limit", host="n1").verdict())
    assert found.kind == "rank_killed"
    assert "time limit" in found.summary


def test_ddp_s_report_names_its_rank() -> None:
    assert first(after().says("torch.unused_parameters", None, ago=9, reporter=2, indices=[7]).verdict()).ranks == (2,)


C10D = "/v/point-packages/torch/distributed/distributed_c10d.py:32 in "


@pytest.mark.parametrize(("odd", "kind"), [("broadcast", "collective_mismatch"), ("all_reduce", "watchdog_timeout")])
def test_tracebacks_of_a_time_out_tell_who_was_in_another_operation(odd: str, kind: str) -> None:
    job = after()
    for rank in range(4):
        frames = ["train.py:9 in main", C10D + "wrapper", C10D + (odd if rank == 1 else "all_reduce")]
        job.says("gloo.timeout", rank, ago=9, ms=8000, direction="recv")
        job.says("python.exception", rank, ago=9, type="RuntimeError", message="Timed out waiting 8000ms for recv",
                 signature="collective_timeout", frames=frames)  # fmt: skip
    found = first(job.verdict())
    assert (found.kind, found.ranks) == (kind, (1,) if kind == "collective_mismatch" else ())


def test_a_rank_that_finished_before_the_others_timed_out_left_early() -> None:
    job = timed_out(0, 1, 2)
    job.says("job.finished", 3, ago=700)
    verdict = job.verdict()
    assert (first(verdict).kind, first(verdict).ranks) == ("rank_left_early", (3,))
    assert all(one.cause for one in verdict.findings[1:])
    destroyed = timed_out(0, 1, 2)
    destroyed.says("nccl.init", 3, ago=800, phase="start", comm_id="0xa", group_rank=3, size=4)
    destroyed.says("nccl.init", 3, ago=799, phase="complete", comm_id="0xa", group_rank=3, size=4)
    destroyed.says("nccl.end", 3, ago=700, phase="destroy", comm_id="0xa", group_rank=3, size=4)
    assert (first(destroyed.verdict()).kind, first(destroyed.verdict()).ranks) == ("rank_left_early", (3,))


def test_an_end_that_comes_later_or_is_that_of_a_sub_group_is_no_leaving() -> None:
    later = timed_out(0, 1, 2).says("job.finished", 3, ago=5)
    assert "rank_left_early" not in kinds(later.verdict())
    small = timed_out(0, 1, 2)
    small.says("nccl.init", 3, ago=800, phase="start", comm_id="0xb", group_rank=1, size=2)
    small.says("nccl.init", 0, ago=800, phase="complete", comm_id="0xa", group_rank=0, size=4)
    small.says("nccl.end", 3, ago=700, phase="destroy", comm_id="0xb", group_rank=1, size=2)
    assert "rank_left_early" not in kinds(small.verdict())


def test_an_error_out_of_nccl_is_told_when_nothing_else_is() -> None:
    job = after()
    job.says("python.exception", 1, ago=9, type="RuntimeError", message="unhandled system error", signature="nccl")
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_crashed", (1,))
    assert "NCCL_DEBUG=WARN" in found.advice
    job.says("python.exception", 2, ago=8, type="KeyError", message="'x'", signature="user", frame="f (m.py:1)")
    assert first(job.verdict()).ranks == (2,)


def test_a_store_that_was_lost_leads_to_rank_0() -> None:
    job = after().says("torch.store_lost", 1, ago=9)
    assert job.verdict().outcome == "unknown"
    assert "rank 0, whose process serves it" in job.verdict().summary
    job.says("job.finished", 0, ago=9)
    assert job.verdict().outcome == "healthy"
    named = after().says("torch.store_lost", 2, ago=9, from_rank=0)
    assert (first(named.verdict()).kind, first(named.verdict()).ranks) == ("store_timeout", (0,))


def test_a_wait_for_a_communicator_s_identifier_names_who_gives_it() -> None:
    found = first(
        after().says("torch.store_timeout", 1, ago=9, phase="wait", from_rank=0, keys="default_pg/0/0").verdict()
    )
    assert (found.kind, found.ranks) == ("store_timeout", (0,))


def test_a_launcher_that_was_told_to_end() -> None:
    found = first(after().says("elastic.signal", None, ago=9, signal="TERM").verdict())
    assert (found.kind, found.ranks) == ("rank_killed", ())
    job = after().says("elastic.signal", None, ago=9, signal="TERM")
    job.says("python.exception", 2, ago=12, type="KeyError", message="'x'", signature="user", frame="f (m.py:1)")
    assert first(job.verdict()).kind == "rank_crashed"


def test_lost_connections_of_an_exception_are_a_victim_s_words() -> None:
    job = after().says("python.exception", 1, ago=9, type="RuntimeError", message="Broken pipe", signature="connection",
                       consequence=True)  # fmt: skip
    assert kinds(job.verdict()) == ["nccl_remote_error"]


def test_words_of_the_ended_alone_are_said_to_be_that() -> None:
    assert "other ranks' logs" in after().says("elastic.closing", None, ago=9, signal="TERM").verdict().summary


def waits(places: dict[int, tuple[str, int]], group: str = "default_pg") -> Sketch:
    job = after()
    for rank, (op, seq) in places.items():
        job.says("torch.watchdog_timeout", rank, ago=9, op=op, seq=seq, ran_ms=600_000, group_name=group)
    return job


def test_ranks_that_wait_at_different_numbers_are_told() -> None:
    same = dict.fromkeys((0, 1, 2), ("ALLREDUCE", 126))
    found = first(waits({**same, 3: ("BROADCAST", 122)}).verdict())
    assert (found.kind, found.ranks) == ("collective_mismatch", (3,))
    assert "rank 3 in BROADCAST #122" in found.summary
    assert first(waits({**same, 3: ("ALLREDUCE", 126)}).verdict()).kind == "watchdog_timeout"


def test_numbers_that_lie_far_apart_are_of_different_groups() -> None:
    places = {0: ("ALLREDUCE", 9_000), 1: ("ALLREDUCE", 9_000), 2: ("ALLREDUCE", 120)}
    assert first(waits(places, group="").verdict()).kind == "watchdog_timeout"
    assert first(waits(places).verdict()).kind == "collective_mismatch"


def test_one_name_of_several_groups_compares_nobody() -> None:
    job = after()
    for rank, seq in ((0, 12), (1, 12), (2, 14), (3, 14)):
        job.says(
            "torch.watchdog_timeout", rank, ago=9, op="ALLREDUCE", seq=seq, ran_ms=1, group="3", group_rank=rank % 2
        )
    assert first(job.verdict()).kind == "watchdog_timeout"


def test_a_status_names_the_group_of_a_time_out() -> None:
    job = after()
    for rank, seq in ((0, 122), (1, 126)):
        job.says("torch.watchdog_timeout", rank, ago=9, op="ALLREDUCE", seq=seq, ran_ms=600_000)
        job.says("torch.watchdog_status", rank, ago=9, work=seq, enqueued=127, group_name="default_pg")
    assert (first(job.verdict()).kind, first(job.verdict()).weight) == ("collective_mismatch", 0.7)


def test_the_store_is_where_the_line_on_all_of_its_addresses_says() -> None:
    job = after()
    job.says("torch.store_timeout", 2, ago=9, phase="connect", address="bf50:0:910e::", port=35841)
    job.says("torch.store_timeout", 2, ago=9, phase="connect", address="10.255.255.1", port=29500, whole=True)
    assert "rank 2 did not reach the store at 10.255.255.1:29500" in first(job.verdict()).summary
