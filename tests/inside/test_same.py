"""check_same over real ranks: one bit, a buffer, a state, a seed; and the healthy twin of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hangtop.inside import check_same
from hangtop.inside.results import CheckResult
from tests.support.torch_ranks import run_ranks

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
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
        assert "are equal on 3 ranks, bit by bit" in result.summary


def test_who_does_not_come_is_named_in_time() -> None:
    def work(rank: int) -> CheckResult | None:
        if rank == 1:
            return None
        return check_same(torch.ones(3), seconds=1.0)

    first, absent, last = run_ranks(WORLD, work)
    assert absent is None
    for result in (first, last):
        assert not result
        assert [finding.kind for finding in result.findings] == ["check_incomplete"]
        assert list(result.findings[0].ranks) == [1]
        assert result.seconds < 8.0
