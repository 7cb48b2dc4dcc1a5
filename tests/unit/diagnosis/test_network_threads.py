"""Who has something under way in the network, by the CPU of NCCL's own threads, where all ranks wait alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import first
from tests.unit.diagnosis.test_own_gpu import SPIN, SYNCHRONIZE, spinning, with_gpus

C10D = "/env/point-packages/torch/distributed/distributed_c10d.py"


def with_threads(job: Job, *cores: float, main: float = 1.0) -> Job:
    """The same with what the threads beside the main one of each rank use; the main one uses ``main``."""
    ranks = []
    for rank, beside in zip(job.ranks, cores, strict=True):
        looks = tuple(
            look.__class__(
                look.at,
                look.value._replace(
                    cpu_user=(main + beside) * (look.at - rank.looks[0].at),
                    cpu_system=5.0,
                    main_cpu=2.0 + main * (look.at - rank.looks[0].at),
                ),
            )
            for look in rank.looks
        )
        ranks.append(replace(rank, looks=looks))
    return replace(job, ranks=tuple(ranks))


def told(*cores: float, **more: Any) -> str:
    found = first(diagnose(with_threads(spinning().job(), *cores, **more)))
    assert found.kind == "collective_stalled"
    return found.summary


def elsewhere(*stack: str, gpu: dict[str, Any] = SPIN) -> Any:
    """The same job with rank 1 at this stack; all but its NCCL have something under way in the network."""
    job = with_gpus(spinning(), SPIN, gpu, SPIN, SPIN)
    job.ranks(1).at(list(stack), state="R").pulse(cores=1.0)
    return first(diagnose(with_threads(job.job(), 1.0, 0.02, 0.99, 1.01)))


def test_who_waits_for_its_gpu_at_a_line_of_its_own_holds_the_others_up() -> None:
    found = elsewhere(SYNCHRONIZE[0], "forward train.py:70", "main train.py:9")
    assert (found.kind, found.ranks, found.certainty) == ("rank_stuck_in_code", (1,), "likely")
    assert "in a kernel that does not end" in found.summary


def test_who_is_in_a_collective_at_a_line_of_its_own_left_that_of_the_others() -> None:
    found = elsewhere(f"barrier {C10D}:4000", "finish train.py:120", "main train.py:9")
    assert (found.kind, found.ranks, found.certainty) == ("collective_mismatch", (1,), "likely")


JAX_BARRIER = "sync_global_devices /venv/lib/python3.11/site-packages/jax/experimental/multihost_utils.py:90"


@pytest.mark.parametrize("barrier", [f"barrier {C10D}:4000", JAX_BARRIER])
@pytest.mark.parametrize("caller", ["save train.py:40", "log_metrics train.py:87"])
def test_a_barrier_called_elsewhere_than_where_the_others_wait_was_left_for(caller: str, barrier: str) -> None:
    """All have something under way. In the function of the others it may be the next line: nobody is odd there."""
    job = spinning()
    job.ranks(1).at([barrier, caller, "main train.py:9"], state="R").pulse(cores=1.0)
    found = first(diagnose(with_threads(job.job(), 1.0, 1.0, 1.0, 1.0)))
    odd = ("collective_mismatch", (1,)) if caller.startswith("save") else ("collective_stalled", (0, 1, 2, 3))
    assert (found.kind, found.ranks) == odd


@pytest.mark.parametrize(
    "cores",
    [
        (1.0, 1.0, 1.0, 1.0),  # all launched it
        (0.0, 0.0, 0.0, 0.0),  # NVLink alone
        (1.0, 0.0, 1.0, 0.0),  # two of a ring have no port of their own
        (1.0, 0.0, 0.4, 1.0),  # one cannot be told
    ],
)
def test_nobody_is_told_where_several_or_none_are_unlike_the_others(cores: tuple[float, ...]) -> None:
    assert told(*cores).endswith("no rank is odd")
