"""check_same over real ranks: one bit, a buffer, a state, a seed; the healthy twin of each; and who does not come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from hangtop.inside import barrier, check_same
from hangtop.inside.results import CheckResult
from tests.support.torch_ranks import run_ranks, torch

pytestmark = pytest.mark.torch

WORLD = 3


def trained(rank: int) -> tuple[Any, Any]:
    """A model under DDP that has made two steps, and its optimizer."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 300), torch.nn.BatchNorm1d(300), torch.nn.Linear(300, 4))
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        ddp(torch.ones(4, 8) * (torch.arange(4).reshape(4, 1) + 1)).sum().backward()
        optimizer.step()
    return model, optimizer


def flip(tensor: Any) -> None:
    """Change the lowest bit of one element."""
    bits = tensor.detach().view(torch.int32).reshape(-1)
    bits[5] ^= 1


def one_bit(rank: int, model: Any, optimizer: Any) -> None:
    if rank == 1:
        flip(model[0].weight)


def buffer(rank: int, model: Any, optimizer: Any) -> None:
    if rank == 2:
        model[1].running_mean[7] = float("nan")


def state(rank: int, model: Any, optimizer: Any) -> None:
    if rank == 0:
        optimizer.state[model[2].bias]["exp_avg"][1] += 0.5


def rate(rank: int, model: Any, optimizer: Any) -> None:
    if rank == 2:
        optimizer.param_groups[0]["lr"] = 0.02


def seed(rank: int, model: Any, optimizer: Any) -> None:
    torch.manual_seed(rank == 1)


FAULTS: dict[Callable[..., None], tuple[str, list[int], str]] = {
    one_bit: ("0.weight", [1], "torch.float32 [300, 8]"),
    buffer: ("1.running_mean", [2], "torch.float32 [300]"),
    state: ("optimizer state 5 exp_avg", [0], "torch.float32 [4]"),
    rate: ("optimizer group 0 lr", [2], "rank 2 has 0.02"),
    seed: ("generator of torch", [1], "torch.uint8 ["),
}


def compared(fault: Callable[..., None] | None) -> list[CheckResult]:
    def work(rank: int) -> CheckResult:
        import random

        import numpy as np

        model, optimizer = trained(rank)
        torch.manual_seed(7)
        random.seed(7)
        np.random.seed(7)
        if fault is not None:
            fault(rank, model, optimizer)
        return check_same(model, optimizer, "rng", seconds=20)

    return run_ranks(WORLD, work)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_what_differs_is_named(fault: Callable[..., None]) -> None:
    name, ranks, evidence = FAULTS[fault]
    results = compared(fault)
    assert {result.summary for result in results} == {results[0].summary}
    for result in results:
        assert not result
        (finding,) = result.findings
        assert finding.kind == "replicas_differ"
        assert finding.summary.startswith(f"{name} differs on rank {ranks[0]} from 2 others")
        assert list(finding.ranks) == ranks
        assert any(evidence in line for line in finding.evidence), finding.evidence


def test_equal_replicas_are_silent() -> None:
    for result in compared(None):
        assert result
        assert not result.findings
        assert "tensors and states are equal on 3 ranks" in result.summary


# --- ranks that fail, come late or stay away ----------------------------------------------------------------------


def test_a_rank_that_cannot_say_its_part_is_named_and_nobody_waits_for_it() -> None:
    def work(rank: int) -> CheckResult:
        return check_same(3 if rank == 1 else torch.ones(2), seconds=600)

    for result in run_ranks(WORLD, work):
        (finding,) = result.findings
        assert finding.kind == "check_incomplete"
        assert list(finding.ranks) == [1]
        assert "could not be made on rank 1: TypeError: cannot compare a int" in finding.summary


def test_what_others_gave_up_is_no_answer_to_a_later_check() -> None:
    def work(rank: int) -> CheckResult:
        value = torch.zeros(2)
        for turn in range(2):  # the same line: a rank that left one out is one behind in all later ones
            if turn == 0 and rank == 0:
                time.sleep(3)
                continue
            result = check_same(value + turn, seconds=1)
        return result

    for result in run_ranks(WORLD, work):
        assert [finding.kind for finding in result.findings] == ["check_incomplete"]


def test_a_barrier_ends_in_time_and_names_the_absent() -> None:
    def work(rank: int) -> list[CheckResult]:
        first = barrier(20.0)
        return [first] if rank == 1 else [first, barrier(1.0)]

    results = run_ranks(3, work)
    assert all(found[0] for found in results)
    missed = results[0][1]
    assert not missed
    assert list(missed.findings[0].ranks) == [1]
    assert missed.findings[0].evidence[0].startswith("rank 1 was last seen in check barrier at test_same.py:")
