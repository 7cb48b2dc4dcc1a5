"""Ranks that wait for their own GPU, as ranks of a job over NCCL do: the GPU, lines and threads tell what for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collectors.samples.stacks import Frame
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import JobMotion
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.diagnosis.waits.job_status import native_wanted
from tests.support.jobs import ALL_REDUCE, MOVING, NOW, READING, Sketch, alarms, c10d, first, gpu, kinds

SPIN = {"utilization": 100, "power": 120.0}
EMPTY = {"utilization": 0, "power": 75.0}
COMPUTE = {"utilization": 100, "power": 640.0}
SYNCHRONIZE = "synchronize /env/point-packages/torch/cuda/__init__.py:985"
ALL = (0, 1, 2, 3)


def at_gpu(caller: str, *callers: str) -> list[str]:
    return [SYNCHRONIZE, caller, *(callers or ("main train.py:9",))]


def spinning(**fields: Any) -> Sketch:
    """Four ranks on two nodes whose GPUs are full at little power; all spin on the CPU at one line."""
    given: dict[str, Any] = {"stood_still": 30.0, **fields}
    job = Sketch(**given)
    job.ranks().at(at_gpu("log_metrics train.py:85"), state="R").pulse(cores=1.0)
    return with_gpus(job, *[SPIN] * 4)


def test_ranks_that_import_a_library_at_one_line_wait_for_nobody() -> None:
    """One has no line of its own at that moment; on a busy machine an import takes long, and no figure moves."""
    importing = ["_find_and_load <frozen importlib._bootstrap>:1176", "<module> train.py:14"]
    job = Sketch(stood_still=17.0, patience=60.0, age=25.0)
    job.ranks().at(importing, state="R", syscall="none").pulse(cores=0.05)
    job.ranks(3).at(["_repr_fn /usr/lib/python3.11/dataclasses.py:589"], state="R", syscall="none")
    assert (job.verdict().outcome, kinds(job.verdict())) == ("starting", [])


def with_gpus(job: Sketch, *rows: dict[str, Any]) -> Sketch:
    """Give rank n the GPU with the n-th row."""
    return job.gpus(*([row] * 4 for row in rows))


def found(job: Sketch) -> Finding:
    return first(job.verdict())


# --- what the GPU tells ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ago", "hung"), [(2.0, False), (29.0, True)])
def test_a_rank_that_spins_at_one_place_has_waited_no_longer_than_since_the_last_step(ago: float, hung: bool) -> None:
    """As where one rank is slow, and a step takes seconds: each look meets the others in the same wait."""
    job = with_gpus(spinning(stood_still=ago, patience=10.0, span=20.0, watched=60.0), SPIN, EMPTY, SPIN, SPIN)
    job.ranks(1).at(READING, syscall="read", waiting_on="pipe").pulse(cores=0.0)
    job.motion = JobMotion(moving=ago < 5, proof="steps 4 to 9 in 30 s", last_step=9, last_step_at=NOW - ago)
    assert (job.verdict().outcome == "hung") is hung


def test_the_busy_gpus_of_another_job_are_none_of_a_job_of_cpus() -> None:
    job = Sketch(stood_still=30.0, watched=30.0, span=20.0)
    job.ranks().at(ALL_REDUCE).pulse(cores=0.0)
    job.ranks(2).at(READING, syscall="read", waiting_on="pipe")
    for name in ("node1", "node2"):
        job.node(name, gpus=tuple(gpu(index, [COMPUTE] * 6, pids=[90 + index]) for index in range(2)))
    assert (job.verdict().outcome, found(job).ranks) == ("hung", (2,))


def test_native_frames_are_wanted_of_a_rank_that_naps_in_c_code_but_not_of_ranks_whose_frames_show_the_wait() -> None:
    """CUDA may poll with naps; ``time.sleep`` has no frame of its own, either."""
    job = Sketch(stood_still=20.0, watched=20.0, span=20.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(2).at(["gather evaluator.py:13", "main train.py:33"], syscall="clock_nanosleep")
    assert native_wanted(job.job()) == (2,)


@pytest.mark.parametrize(
    ("figures", "held", "outcome"), [(False, 20.0, "waiting"), (False, 70.0, "hung"), (True, 20.0, "hung")]
)
def test_a_rank_that_waits_for_its_gpu_elsewhere_may_run_kernels_of_its_own(
    held: float, outcome: str, *, figures: bool
) -> None:
    """Rank 2 evaluates alone. Without a figure of its GPU the other ranks' wait is a fault only once it is long."""
    job = Sketch(stood_still=held, watched=held, span=held, patience=5.0)
    job.ranks().at(ALL_REDUCE).pulse(cores=0.0)
    job.ranks(2).at(at_gpu("decode generate.py:15", "evaluate train.py:32")).pulse(cores=0.0)
    if figures:
        with_gpus(job, *[SPIN] * 4)
    assert (job.verdict().outcome, found(job).ranks) == (outcome, (2,))


# --- in which function they wait -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("odd", "where", "named"),
    [
        ((1,), "check_finite train.py:40", (1,)),
        ((0,), "check_finite train.py:40", ALL),  # it may print a figure
        ((0, 1), "check_finite train.py:40", ALL),
        ((0,), "validate train.py:40", (0,)),  # it calls what all must call
        ((0,), "save_checkpoint train.py:40", (0,)),
    ],
)
def test_a_rank_in_a_function_that_no_other_is_in_is_named_as_possible(
    odd: tuple[int, ...], where: str, named: tuple[int, ...]
) -> None:
    job = spinning()
    job.ranks(*odd).at(at_gpu(where), state="R").pulse(cores=1.0)
    assert (found(job).ranks, found(job).certainty) == (named, "possible")


def test_lines_say_nothing_of_a_job_that_moves_or_computes() -> None:
    for job in (spinning(stood_still=0.0, motion=MOVING), with_gpus(spinning(), SPIN, COMPUTE, SPIN, SPIN)):
        job.ranks(1).at(at_gpu("check_finite train.py:40"), state="R").pulse(cores=1.0)
        assert alarms(job.verdict()) == []


@pytest.mark.parametrize(("left", "named"), [((3,), (3,)), ((2, 3), ALL)])
def test_a_rank_that_left_the_stages_of_a_pipeline_for_a_barrier_is_named(
    left: tuple[int, ...], named: tuple[int, ...]
) -> None:
    job = spinning()
    job.ranks(1).at(at_gpu("backward schedule.py:61"), state="R").pulse(cores=1.0)
    job.ranks(*left).at(c10d("barrier", "finish train.py:52", "main train.py:12")).pulse(cores=0.0)
    assert found(job).ranks == named


# --- what could not be read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("still", "told"), [(10.0, []), (65.0, ["job_stalled"])])
def test_where_all_burn_cpu_unread_that_is_told_only_after_a_long_call_would_be_over(
    still: float, told: list[str]
) -> None:
    job = Sketch(stood_still=still)
    job.ranks().unread("denied: ptrace").pulse(cores=1.0)
    assert kinds(job.verdict()) == told


def test_a_rank_whose_stack_stays_torn_is_read_with_a_pause_in_a_job_that_stands_still() -> None:
    job = Sketch(stood_still=30.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(2).unread("torn: no main thread")
    assert (job.verdict().outcome, kinds(job.verdict())) == ("hung", ["job_stalled"])
    assert native_wanted(job.job()) == (2,)
    job.ranks(2).unread("denied: ptrace")
    assert native_wanted(job.job()) == (), "a pause would be refused as well"
    job.motion, job.stood_still = MOVING, 0.0
    assert native_wanted(job.job()) == ()


@pytest.mark.parametrize(("function", "named"), [("ncclCommInitRankConfig", (3,)), ("curl_easy_perform", ())])
def test_ranks_at_a_socket_in_c_code_wait_for_an_absent_rank_where_native_frames_show_the_start_of_a_communicator(
    function: str, named: tuple[int, ...]
) -> None:
    """NCCL's bootstrap called without torch, as by vLLM's pynccl: one rank is asked for native frames."""
    job = Sketch(stood_still=30.0)
    job.ranks(0, 1, 2).at(["connect parallel.py:21", "main serve.py:9"], syscall="poll", waiting_on="tcp 10.0.0.1:4000")
    job.ranks(3).absent()
    made = job.job()
    assert native_wanted(made) == (0,)
    asked = made.stacks[0]
    main = asked.threads[0]
    inner = [Frame(function, "libnccl.so.2", 0, native=True), *main.frames]
    native = asked._replace(method="native", threads=[main._replace(frames=inner)])
    nodes = (*made.stack_nodes, made.stack_nodes[0])
    verdict = diagnose(replace(made, stacks=(*made.stacks, native), stack_nodes=nodes))
    assert {rank for found in verdict.findings for rank in found.ranks} == set(named), verdict.summary


def test_without_any_stack_the_rank_whose_gpu_has_nothing_to_do_is_named() -> None:
    """As where nobody may trace the ranks: three kernels wait for a peer, and rank 1 has launched none."""
    job = with_gpus(Sketch(stood_still=100.0, patience=10.0), SPIN, EMPTY, SPIN, SPIN)
    job.ranks().unread("denied: ptrace")
    assert (found(job).kind, found(job).ranks) == ("job_stalled", (1,))
    assert "rank 1 sleeps, GPU idle" in found(job).summary
    assert found(with_gpus(job, *[SPIN] * 4)).ranks == ()
